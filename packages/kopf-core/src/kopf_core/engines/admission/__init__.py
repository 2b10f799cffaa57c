"""Admission: the webhooks that judge and amend the requests to the API before they take effect.

- :mod:`.requests`, :mod:`.responses`: what is asked, and how it is answered. Pure.
- :mod:`.routes`, :mod:`.configurations`: how the API finds the handlers. Pure.
- :mod:`.reviewing`: from a request to its handlers, and to the response.
- :mod:`.managing`, :mod:`.conversion_keeping`: what is written to the cluster for that;
  :mod:`.keeping` is common for them.
- :mod:`.admission_engine`: all of it together, with the webhook server of the user's choice.
"""

from kopf_core.engines.admission.admission_engine import (
    AdmissionEngine,
    AdmissionSetupError,
    check_admission,
    get_webhook_handlers,
)
from kopf_core.engines.admission.managing import ConfigurationError
from kopf_core.engines.admission.reviewing import ReviewContext, Reviewer

__all__ = [
    "AdmissionEngine",
    "AdmissionSetupError",
    "ConfigurationError",
    "ReviewContext",
    "Reviewer",
    "check_admission",
    "get_webhook_handlers",
]
