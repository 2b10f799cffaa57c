import kopf


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **kwargs):
    settings.peering.name = "default"
    settings.peering.priority = 0


@kopf.on.create("kopfexamples")
def create_fn(name, **kwargs):
    print(f"Created: {name}")
