# The image of kopf, slim. From the root of the sources: make build && docker build -f deploy/image/slim.Dockerfile .
ARG PYTHON=3.14
FROM python:${PYTHON}-slim

# The wheels of this very tree: `make build` puts them to dist/.
COPY dist/ /tmp/dist/
ARG EXTRAS=full-auth,uvloop,orjson,metrics,dev
RUN pip install --no-cache-dir --find-links /tmp/dist "kopf[${EXTRAS}] @ file://$(ls /tmp/dist/kopf-*.whl)" \
  && rm -rf /tmp/dist

# Of the packages that the operators need, the requirements come with them, see the entrypoint.
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONUNBUFFERED=1
COPY deploy/image/entrypoint.sh /usr/local/bin/kopf-entrypoint
WORKDIR /app
ENTRYPOINT ["kopf-entrypoint"]
