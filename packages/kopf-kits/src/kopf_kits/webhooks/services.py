"""A server inside of the cluster, which is reached through a Service."""

import pathlib
import ssl

from kopf_cogs.aiokits.clocks import SystemClock
from kopf_cogs.clients.incluster import login_with_service_account
from kopf_cogs.structs.reviews import WebhookClientConfig

from .detection import get_client
from .endpoints import make_root
from .identities import FileProvider, Path, Provider, extract_certificates
from .listeners import WebhookServerError
from .servers import WebhookServer
from .shared import SecretProvider


class WebhookServiceServer(WebhookServer):
    """A server for operators in the cluster: any number of replicas behind one Service.

    - ``service`` is the name of the Service, ``service_port`` is its port.
    - ``namespace`` is where the Service is; by default, where the operator itself runs.
    - ``addr``, ``port`` are where to listen in the pod; the Service leads there.
    - ``path`` is the beginning of all URLs (none by default).
    - ``folder`` is where the Secret of cert-manager is mounted, with the files ``tls.crt``,
      ``tls.key``, and ``ca.crt`` if the issuer has one.
    - ``secret`` is the name of a Secret for a certificate of our own, if there is no folder;
      ``{service}-certificate`` by default. It is made by the first replica, shared by all of them,
      and renewed in time. It needs the ``cryptography`` library, and the permissions to get,
      create, and update Secrets in that namespace.

    All the other parameters are as in :class:`WebhookServer`.
    """

    def __init__(
        self,
        service: str,
        *,
        namespace: str | None = None,
        service_port: int = 443,
        addr: str | None = None,
        port: int = 9443,
        path: str | None = None,
        folder: Path | None = None,
        secret: str | None = None,
        verify_mode: ssl.VerifyMode | None = None,
        verify_cafile: Path | None = None,
        verify_capath: Path | None = None,
        verify_cadata: str | bytes | None = None,
        file_check_interval: float = 60.0,
    ) -> None:
        if folder is not None and secret is not None:
            raise ValueError("The certificate is either in the folder or in the Secret, not both.")
        super().__init__(
            addr=addr,
            port=port,
            path=path,
            verify_mode=verify_mode,
            verify_cafile=verify_cafile,
            verify_capath=verify_capath,
            verify_cadata=verify_cadata,
            file_check_interval=file_check_interval,
        )
        self.service = service
        self.namespace = namespace
        self.service_port = service_port
        self.folder = None if folder is None else pathlib.Path(folder)
        self.secret = secret or f"{service}-certificate"

    async def _find_host(self) -> str:
        return f"{self.service}.{self._get_namespace()}.svc"

    def _get_namespace(self) -> str:
        if self.namespace is not None:
            return self.namespace
        info = login_with_service_account()
        if info is None or info.default_namespace is None:
            raise WebhookServerError(
                f"The namespace of Service {self.service} is not known outside of the cluster: "
                "please specify it."
            )
        return info.default_namespace

    def _describe(self, host: str, port: int) -> WebhookClientConfig:
        root = make_root(self.path)
        return {
            "service": {
                "namespace": self._get_namespace(),
                "name": self.service,
                "port": self.service_port,
                **({"path": root} if root else {}),
            }
        }

    def _make_provider(self, host: str) -> Provider:
        if self.folder is not None:
            certfile, pkeyfile = self.folder / "tls.crt", self.folder / "tls.key"
            return FileProvider(certfile, pkeyfile, None, self._read_bundle)
        client = get_client()
        if client is None:
            raise WebhookServerError(
                f"The certificate for Service {self.service} is in a Secret, "
                "which is only accessible in operators."
            )
        hostnames = {host, host.removesuffix(".svc"), self.service, f"{host}.cluster.local"}
        client = client.without_fence()  # all replicas need it, and versions prevent conflicts
        return SecretProvider(client, self._get_namespace(), self.secret, hostnames, SystemClock())

    def _read_bundle(self) -> bytes | None:
        path = None if self.folder is None else self.folder / "ca.crt"
        if path is None or not path.exists():
            return None
        return extract_certificates(path.read_bytes())
