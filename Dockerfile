# syntax=docker/dockerfile:1
# docs/deploy.md says how to pin the base by its digest.
ARG BASE=docker.io/library/python:3.11-slim-bookworm
# The same with a C compiler, for look-ups; nothing else of it stays.
ARG BUILD_BASE=docker.io/library/python:3.11-bookworm

FROM ${BUILD_BASE} AS build
WORKDIR /build
COPY requirements-runtime.lock ./
RUN python -m venv --without-pip /usr/local/lib/sirocco \
    && pip --python /usr/local/lib/sirocco install --no-cache-dir --only-binary :all: \
        --require-hashes -r requirements-runtime.lock
COPY . .
RUN pip --python /usr/local/lib/sirocco install --no-cache-dir --no-index --no-deps \
        --no-build-isolation . \
    && pip --python /usr/local/lib/sirocco uninstall -y setuptools \
    && /usr/local/lib/sirocco/bin/python deploy/sbom.py > /usr/local/lib/sirocco/sirocco.cdx.json

FROM ${BASE}
# LightGBM's wheel does not carry the OpenMP library; Debian keeps no older version to pin.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/* \
    && install -d -o 10001 -g 10001 -m 700 /data
COPY --from=build /usr/local/lib/sirocco /usr/local/lib/sirocco
ENV PATH=/usr/local/lib/sirocco/bin:$PATH \
    SIROCCO_HOST=0.0.0.0 \
    SIROCCO_DATA_DIR=/data
WORKDIR /data
VOLUME ["/data"]
EXPOSE 8080
USER 10001:10001
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import os, urllib.request as http; http.urlopen('http://127.0.0.1:' + os.environ.get('SIROCCO_PORT', '8080') + '/healthz', timeout=4)"]
ENTRYPOINT ["sirocco"]
CMD ["serve"]

ARG BASE
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="sirocco" \
      org.opencontainers.image.description="A calibration service for ad platforms" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${BASE}" \
      io.cyclonedx.sbom="/usr/local/lib/sirocco/sirocco.cdx.json"
