import kopf


@kopf.on.create("kopfexamples")
def create_fn(spec, body, **kwargs):
    print(f"And here we are! Creating: {spec}")
    kopf.info(body, reason="Greeting", message="It is seen in `kubectl describe`.")
    return {"message": "hello world"}  # it goes to the status of the object


@kopf.on.update("kopfexamples")
def update_fn(diff, **kwargs):
    for operation, field, old, new in diff:
        print(f"Changing: {operation} {'.'.join(field)}: {old!r} -> {new!r}")


@kopf.on.delete("kopfexamples")
def delete_fn(name, **kwargs):
    print(f"Deleting: {name}")
