import kopf


@kopf.on.create("kopfexamples", labels={"somelabel": "somevalue"})
def create_with_labels_satisfied(logger, **kwargs):
    logger.info("Label satisfied.")


@kopf.on.create("kopfexamples", labels={"somelabel": "othervalue"})
def create_with_labels_not_satisfied(logger, **kwargs):
    logger.info("Label not satisfied.")


@kopf.on.create("kopfexamples", labels={"somelabel": kopf.PRESENT, "otherlabel": kopf.ABSENT})
def create_with_labels_present_and_absent(logger, **kwargs):
    logger.info("Labels present and absent.")


def is_some_value(value, **kwargs):
    return value is not None and value.startswith("some")


@kopf.on.create("kopfexamples", annotations={"someannotation": is_some_value})
def create_with_annotations_callback(logger, **kwargs):
    logger.info("Annotation satisfied by callback.")


def has_field(spec, **kwargs):
    return spec.get("field") == "value"


def has_no_duration(spec, **kwargs):
    return "duration" not in spec


@kopf.on.create("kopfexamples", when=kopf.all_([has_field, kopf.not_(has_no_duration)]))
def create_with_callbacks(logger, **kwargs):
    logger.info("Callbacks satisfied.")


@kopf.on.create("kopfexamples", field="spec.field", value="value")
def create_with_field_value(logger, **kwargs):
    logger.info("Field value satisfied.")


@kopf.on.update("kopfexamples", field="spec.field", old="value", new="changed")
def update_with_field_change(logger, **kwargs):
    logger.info("Field change satisfied.")


@kopf.on.update("kopfexamples", field="spec.field", new=lambda value, **_: value == "other")
def update_with_field_change_callback(logger, **kwargs):
    logger.info("Field change satisfied by callback.")
