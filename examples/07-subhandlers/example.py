import kopf


@kopf.on.create("kopfexamples")
def create_fn(spec, **kwargs):
    # As many sub-handlers as there are items in this very object.
    for item in spec.get("items", []):

        @kopf.subhandler(id=item)
        def create_item_fn(item=item, **kwargs):
            print(f"=== Handling creation for {item}. ===")
            return f"done with {item}"


@kopf.on.update("kopfexamples", field="spec.items")
async def update_fn(old, new, **kwargs):
    async def handle_item(item, **kwargs):
        print(f"=== Handling the change for {item}. ===")

    # The same in another form; here, it waits for the sub-handlers.
    added = set(new or []) - set(old or [])
    await kopf.execute(fns={item: _with_item(handle_item, item) for item in sorted(added)})


def _with_item(fn, item):
    async def handler(**kwargs):
        await fn(item, **kwargs)

    return handler
