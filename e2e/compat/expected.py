"""The intended differences from the previous generation, each with the reason for it."""

from __future__ import annotations

from .comparing import Expected

RELEASED = r'^-PATCH .* merge-patch\+json .*": null|^[+-]PATCH .* json-patch.*/metadata/finalizers'

RELEASING = (
    "delete-*",
    "handover-deletion",
    "re*-deleted*",
    "subs-of-fields",
    "storage-*",
    "many-objects",
    "foreign-finalizers",
    "resume-mixed",
    "filters-fields",
)
"""The cases with deletions after which there is some progress to be removed."""

EXPECTED: tuple[Expected, ...] = (
    *(
        Expected(
            case,
            "requests",
            RELEASED,
            "The progress of deletions is removed together with the finalizer, in one request.",
        )
        for case in RELEASING
    ),
    *(
        Expected(
            case,
            "logs",
            r"(INFO|DEBUG) Timer '[^']+' succeeded",
            "Ticks of timers are logged for debugging only: there are too many of them.",
        )
        for case in ("timer-*", "handover-daemons")
    ),
    Expected(
        "admission-*",
        "logs",
        r"^[+-].* (INFO|ERROR) Webhook '[^']+' failed permanently",
        "A rejected request is an answer of the webhook, not an error of the operator.",
    ),
    Expected(
        "handover-daemons",
        "requests",
        r'^-PATCH .* merge-patch\+json \{"status": \{"tm": 1\}\} -> 200$',
        "A status that is already on the object is not sent again by each tick of a timer.",
    ),
    Expected(
        "errors-messages",
        "logs",
        r"Handler 'multi' failed",
        "Messages of several lines are logged as one line, so that no line can be forged.",
    ),
    Expected(
        "errors-messages",
        "logs",
        r"Handler 'key' failed",
        "Errors of absent keys are named as such: a mere key tells nothing.",
    ),
    Expected(
        "daemon-ending",
        "[lor]*",
        r'"finalizers": \[$|: +"kopf.zalando.org/KopfFinalizerMarker"$|: +\],$'
        r"|^[+-]PATCH .*/metadata/finalizers|Removing the finalizer, as there are no handlers",
        "Finalizers are removed by the event that follows the end of all daemons: "
        "it depends on luck, in both, whether their own last patch is such an event.",
    ),
    Expected(
        "errors-timeouts",
        "*",
        r"Handler 'd'|Creation is processed|^-.*\bd\b|^-#1 .*status|^-#1 .*[{}],?$",
        "Async handlers are interrupted when their time is over, as it is documented.",
    ),
    Expected(
        "errors-*",
        "logs",
        r"^-.* Handler '(r0|e)' is invoked\.",
        "Handlers without attempts left are not reported as invoked: they are not.",
    ),
    Expected(
        "admission-kwargs",
        "logs",
        r"^[+-]\[(ns/)?(None)?\] \w+ Webhook 'plain' (is invoked|succeeded)\.$",
        "There is no None in the log for the objects that have no names yet.",
    ),
    Expected(
        "admission-protocol",
        "calls",
        r"answer to not-json",
        "What is not a review is the mistake of those who send it, not of the server.",
    ),
    Expected(
        "*",
        "logs",
        r" Indexer '\w+' (is invoked|succeeded)\.",
        "Successful indexing is for debugging only: there is a line for every event.",
    ),
    Expected(
        "daemon-cancelled",
        "logs",
        r"^\+.* Daemon '\w+' has exited on request",
        "The exits of cancelled daemons are reported as of all others.",
    ),
    Expected(
        "filters-callbacks",
        "calls",
        r"^\+x: cb f\.when: .*\"reason\": \"resume\"",
        "Callbacks can also be called for the causes that the handlers are not for.",
    ),
    Expected(
        "restart-with-other-handlers",
        "*",
        r"kopf\.zalando\.org/(gone|gone2|a)\b",
        "The records of handlers that are not in the code anymore do not stay forever.",
    ),
    Expected(
        "*",
        "logs",
        r"^\+.* DEBUG Deletion, but we are done with it, and we do not care\.",
        "The echo of the last patch before the release of the object is acknowledged.",
    ),
    Expected(
        "daemon-[sg][yr]*",
        "*",
        r"^-#[23] |no objects|remove.*/metadata/finalizers|Removing the finalizer"
        r"|is still exiting",
        "Objects are released when their daemons exit, not a minute later.",
    ),
    Expected(
        "daemon-graceful",
        "[lr]*",
        r"^-.*(did not exit in time|has exited gracefully|Request attempt|\"dm\": \"stopped\")"
        r"|^\+.* is still exiting|^\+PATCH .*\"dm\": \"stopped\".* -> 200$",
        "The last patches of daemons are waited for when the operator exits.",
    ),
    Expected(
        "daemon-graceful",
        "[co]*",
        r'^[+-]x: (dm|later)(-stopped)?: .*"status": \{("dm": "stopped")?\}'
        r'|^\+#\d compatexamples/x: +("status": \{|"dm": "stopped"|\},?)$',
        "The last patches of daemons are waited for when the operator exits.",
    ),
    Expected(
        "daemon-*",
        "requests",
        r"^-PATCH .*/metadata/finalizers.* -> 404",
        "The finalizers are removed once.",
    ),
    Expected(
        "handover-daemons",
        "logs",
        r"^-.* has exited gracefully",
        "The exits are reported once.",
    ),
    Expected(
        "timer-permanent",
        "*",
        r"^\+.* Timer 'perm' has exited on its own",
        "Timers stop forever on permanent errors, as it is documented.",
    ),
    Expected(
        "filters-fields",
        "*",
        r"^[+-].*(remove.*/metadata/finalizers|Removing the finalizer, as there are no handlers)",
        "The finalizers are removed once they are unneeded, before the handling of that change.",
    ),
    Expected(
        "patch-unserialisable",
        "*",
        r"'bad' has returned|Throttling|kopf\.zalando\.org/(bad|c|last-handled-configuration)\b",
        "Results that cannot be stored are dropped, and do not block their objects.",
    ),
    Expected(
        "create-then-changed",
        "[clr]*",
        r"^\+|last-handled-configuration",
        "Changes in the middle of a cycle are handled as the next update, they are not lost.",
    ),
    Expected(
        "update-accumulates",
        "[clr]*",
        r"^\+|last-handled-configuration",
        "Changes in the middle of a cycle are handled as the next update, they are not lost.",
    ),
    Expected(
        "resume-then-updated",
        "[clr]*",
        r"^\+|last-handled-configuration",
        "Changes in the middle of a cycle are handled as the next update, they are not lost.",
    ),
    Expected(
        "patch-fn-failing",
        "[lr]*",
        r"Throttling|^\+.* ERROR The patch made by the handlers is rejected"
        r"|^\+PATCH .*last-handled-configuration",
        "A failing function costs the patch of its handlers, but not the handling of the object.",
    ),
    Expected(
        "errors-timeout-ahead",
        "logs",
        r"^[+-].*it would time out (in|after) 3 seconds on the next attempt",
        "The time-outs are reported in the same words for all kinds of errors.",
    ),
    Expected(
        "update-reverted",
        "*",
        r"^[+-]",
        "A change made and reverted in the middle of an update is handled as the next update by "
        "those who have seen it; there, they are never told, and the progress stays for ever.",
    ),
    Expected(
        "delete-while-[cu]*-same-id",
        "[clr]*",
        r"^[+-].*(\bb\b|'b'|Deletion is processed)",
        "A success of a creation or an update is not a success of the deletion under the same id.",
    ),
    Expected(
        "delete-while-updating",
        "[clr]*",
        r"^[+-].*(\bd2\b|'a'|\bDeletion is processed|kopf\.zalando\.org/a)",
        "A success of a creation or an update is not a success of the deletion under the same id.",
    ),
    Expected(
        "patch-status",
        "requests",
        r"^[+-]PATCH .* merge-patch",
        "The status as a subresource is patched before the rest, so that no results are lost.",
    ),
    Expected(
        "handover-changed",
        "[clr]*",
        r"^\+|last-handled-configuration",
        "Changes in the middle of a cycle are handled as the next update, they are not lost.",
    ),
    Expected(
        "update-own-field",
        "logs",
        r"^[+-].* Updating is processed: [12] succeeded",
        "The handlers that do not match in the end of the cycle are not counted.",
    ),
)
