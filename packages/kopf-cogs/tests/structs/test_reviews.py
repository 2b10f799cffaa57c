from kopf_cogs.structs.reviews import ReviewError, UnknownWebhookError


def test_errors_say_how_to_respond():
    assert ReviewError("x").status == 400
    assert UnknownWebhookError("x").status == 404
    assert isinstance(UnknownWebhookError("x"), ReviewError)
    assert str(ReviewError("it is not a review")) == "it is not a review"
