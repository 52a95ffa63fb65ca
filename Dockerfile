# Two images. `scheduler`, the default, has all components and the command line; `device-plugin` only what a node needs.
#   docker buildx build --platform linux/amd64,linux/arm64 -t ringwise/ringwise:0.1.0 .
#   docker buildx build --platform linux/amd64,linux/arm64 --target device-plugin -t ringwise/ringwise-device-plugin:0.1.0 .
# They run as an unprivileged user, write nothing to their file system, and need no shell.

# A tag can be moved. For a build that can be repeated give the digest that your registry shows for it:
#   --build-arg BASE=python:3.11-slim-bookworm@sha256:...
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
WORKDIR /build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY requirements.txt requirements-build.txt ./
# The version that requirements-dev.txt pins; it builds the package and is not part of the image.
RUN python -m venv /opt/ringwise \
 && /opt/ringwise/bin/pip install --quiet --require-hashes --only-binary=:all: -r requirements-build.txt
# Wheels only: nothing is compiled, so both processors get what was tested.
RUN /opt/ringwise/bin/pip install --quiet --require-hashes --only-binary=:all: -r requirements.txt
COPY pyproject.toml setup.py README.md LICENSE ./
COPY src ./src
ARG RINGWISE_COMMIT=
RUN /opt/ringwise/bin/pip install --quiet --no-deps --no-build-isolation . \
 && /opt/ringwise/bin/python -m compileall -q /opt/ringwise/lib \
 && /opt/ringwise/bin/pip uninstall --quiet --yes setuptools pip

# What a node does not need: the dashboard, labs, simulations, and the webhook.
FROM build AS build-device-plugin
RUN cd /opt/ringwise/lib/python3.*/site-packages/ringwise \
 && rm -r web embed apps/lab apps/simulate apps/admission cli/lab

FROM ${BASE} AS device-plugin
LABEL org.opencontainers.image.title="ringwise-device-plugin" \
      org.opencontainers.image.description="Kubelet device plugin of Ringwise for Ascend NPUs" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build-device-plugin /opt/ringwise /opt/ringwise
ENV PATH=/opt/ringwise/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HOME=/tmp
USER 65532:65532
ENTRYPOINT ["ringwise"]
CMD ["device-plugin", "check"]

FROM ${BASE} AS scheduler
LABEL org.opencontainers.image.title="ringwise" \
      org.opencontainers.image.description="Chip-aware gang scheduling for clusters of Ascend NPUs" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/ringwise /opt/ringwise
ENV PATH=/opt/ringwise/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HOME=/tmp
USER 65532:65532
ENTRYPOINT ["ringwise"]
CMD ["--help"]
