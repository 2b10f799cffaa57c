"""Admission: webhooks judge and amend the requests to the API before they take effect.

- :mod:`.requests`, :mod:`.responses`: the reviews from the API, and the answers to them. Pure.
- :mod:`.routes`, :mod:`.configurations`: how the API finds the handlers. Pure.
- :mod:`.reviewing`: the way of a review to its handlers, and to the response.
- :mod:`.managing`, :mod:`.conversion_keeping`: the objects in the cluster that name the webhooks.
  :mod:`.keeping` is their common part.
- :mod:`.admission_engine`: all parts together, with the webhook server of the user's choice.
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
