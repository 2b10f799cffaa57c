// A small editor: a text area over its own coloured copy. Tab indents; Escape, then Tab leaves it.
const KEYWORDS =
  "and as assert async await break class continue def del elif else except False finally for from " +
  "global if import in is lambda match case None nonlocal not or pass raise return True try while " +
  "with yield";

const GRAMMARS = {
  python: new RegExp(
    [
      /(?<comment>#.*)/,
      /(?<string>[rbfRBF]{0,2}(?:"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))/,
      /(?<decorator>@[\w.]+)/,
      new RegExp(`(?<keyword>\\b(?:${KEYWORDS.replaceAll(" ", "|")})\\b)`),
      /(?<number>\b\d[\w.]*)/,
    ].map((part) => part.source).join("|"), "g"),
  yaml: /(?<comment>(?<![^\s])#.*)|(?<keyword>^[ \t]*(?:- )*[\w./$-]+(?=:(?:\s|$)))|(?<string>"[^"\n]*"|'[^'\n]*')|(?<number>(?<=[:-] )\d[\d.]*(?=\s|$))/gm,
};

export function makeEditor(place, language, label) {
  const area = document.createElement("textarea");
  const copy = document.createElement("pre");
  Object.assign(area, { spellcheck: false, autocomplete: "off", wrap: "off" });
  area.setAttribute("aria-label", label);
  area.title = "Tab indents. Press Escape, then Tab, to leave the editor.";
  copy.setAttribute("aria-hidden", "true");
  place.classList.add("pg-editor");
  place.append(copy, area);
  const indent = language === "python" ? "    " : "  ";
  let isLeaving = false;

  const draw = () => copy.replaceChildren(...colour(area.value + "\n", GRAMMARS[language]));
  const scroll = () => { copy.scrollTop = area.scrollTop; copy.scrollLeft = area.scrollLeft; };
  area.addEventListener("input", () => { draw(); scroll(); });
  area.addEventListener("scroll", scroll);
  area.addEventListener("keydown", (event) => {
    if (event.key === "Tab" && !event.shiftKey && !isLeaving) {
      event.preventDefault();
      document.execCommand("insertText", false, indent);  // it can be undone, as typing can
    } else if (event.key === "Enter" && !event.isComposing) {
      event.preventDefault();
      const line = area.value.slice(0, area.selectionStart).split("\n").at(-1);
      const deeper = language === "python" && line.trimEnd().endsWith(":") ? indent : "";
      document.execCommand("insertText", false, "\n" + /^[ \t]*/.exec(line)[0] + deeper);
    }
    isLeaving = event.key === "Escape";
  });
  return {
    get text() { return area.value; },
    set text(value) { area.value = value; draw(); scroll(); },
  };
}

function colour(text, grammar) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(grammar)) {
    const [kind] = Object.entries(match.groups).find(([, found]) => found !== undefined);
    const span = document.createElement("span");
    span.className = `pg-${kind}`;
    span.textContent = match[0];
    parts.push(text.slice(end, match.index), span);
    end = match.index + match[0].length;
  }
  return [...parts, text.slice(end)];
}
