# One image; the command chooses API (default), worker, migration or all-in-one.
# No BuildKit-only syntax, so that any builder can make it.
FROM python:3.12-slim AS build
WORKDIR /build
COPY requirements.lock ./
RUN python -m venv /opt/heliograph \
    && /opt/heliograph/bin/pip install --no-cache-dir --disable-pip-version-check \
       --require-hashes -r requirements.lock

FROM python:3.12-slim
RUN groupadd --gid 10001 heliograph \
    && useradd --uid 10001 --gid heliograph --no-create-home --shell /usr/sbin/nologin heliograph \
    && mkdir /data && chown heliograph:heliograph /data
COPY --from=build /opt/heliograph /opt/heliograph
WORKDIR /srv/heliograph
COPY pyproject.toml LICENSE ./
COPY migrations ./migrations
COPY app ./app
COPY workers ./workers
ENV PATH=/opt/heliograph/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HELIOGRAPH_DATA_DIR=/data \
    HELIOGRAPH_HOST=0.0.0.0 \
    HELIOGRAPH_PORT=8080
USER 10001:10001
VOLUME ["/data"]
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=6 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen('http://127.0.0.1:' + os.environ['HELIOGRAPH_PORT'] + '/healthz', timeout=4)"]
CMD ["python", "-m", "app.main"]
