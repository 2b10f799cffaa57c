import kopf


@kopf.on.login()
def login_fn(**kwargs):
    return kopf.login_with_kubeconfig(**kwargs) or kopf.login_with_service_account(**kwargs)


@kopf.on.create("kopfexamples")
def create_fn(spec, **kwargs):
    print(f"And here we are! Creating: {spec}")
    return {"message": "hello world"}  # will be the new status


@kopf.on.update("kopfexamples")
def update_fn(diff, **kwargs):
    for operation, field, old, new in diff:
        print(f"Changing: {operation} {'.'.join(field)}: {old!r} -> {new!r}")


@kopf.on.delete("kopfexamples")
def delete_fn(name, **kwargs):
    print(f"Deleting: {name}")
