// The list of versions: it opens the same page of another version, or the first page if there is no such page.
document.addEventListener("DOMContentLoaded", () => {
  const { root, title, versions } = window.kopfVersions;
  for (const label of document.querySelectorAll(".versions")) {
    const select = label.querySelector("select");
    for (const version of versions) {
      select.add(new Option(version.title, version.path, false, version.title === title));
    }
    label.hidden = versions.length < 2;
    select.addEventListener("change", () => {
      const { path, pages } = versions.find((version) => version.path === select.value);
      const page = pages.includes(select.dataset.page) ? select.dataset.page : "index";
      const own = document.documentElement.dataset.content_root;
      window.location.assign(`${own}${root}${path}${page}.html${window.location.hash}`);
    });
  }
});

// Browsers do not let files read other files: the results of the search have no excerpts there.
if (window.location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
