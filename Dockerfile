# One image; the command chooses API (default), worker, migration or all-in-one.
# No BuildKit-only syntax, so that any builder can make it.
FROM python:3.12-slim-bookworm AS build
WORKDIR /build
COPY requirements.lock ./
RUN python -m venv --without-pip /opt/heliograph \
    && python -m pip --python /opt/heliograph/bin/python install --no-cache-dir \
       --disable-pip-version-check --root-user-action=ignore --require-hashes -r requirements.lock

FROM python:3.12-slim-bookworm
# The folder exists and is owned before it becomes a volume: a new named volume takes that over.
RUN groupadd --gid 10001 heliograph \
    && useradd --uid 10001 --gid heliograph --no-create-home --shell /usr/sbin/nologin heliograph \
    && mkdir /data && chown heliograph:heliograph /data
COPY --from=build /opt/heliograph /opt/heliograph
WORKDIR /srv/heliograph
COPY LICENSE ./
COPY migrations ./migrations
COPY app ./app
COPY workers ./workers
ENV PATH=/opt/heliograph/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HELIOGRAPH_DATA_DIR=/data \
    HELIOGRAPH_HOST=0.0.0.0 \
    HELIOGRAPH_PORT=8080
# Bytecode now, since the user below may not write it at each start.
RUN python -m compileall -q app migrations workers
USER 10001:10001
VOLUME ["/data"]
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=6 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen('http://127.0.0.1:' + os.environ['HELIOGRAPH_PORT'] + '/healthz', timeout=4)"]
CMD ["python", "-m", "app.main"]
