import kopf


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **kwargs):
    settings.peering.name = "default"
    settings.peering.lifetime = 30  # the priority is left to the command line


@kopf.on.create("kopfexamples")
def create_fn(name, **kwargs):
    print(f"Created: {name}")
