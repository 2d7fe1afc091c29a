# cellwright over HTTP, in a container: docker build -t cellwright .
FROM python:3.13-slim AS build
ARG EXTRAS=all
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY jupyter-config ./jupyter-config
COPY src ./src
RUN python -m venv /opt/cellwright \
 && /opt/cellwright/bin/pip install --no-cache-dir --constraint constraints.txt ".[${EXTRAS}]"

FROM python:3.13-slim
COPY --from=build /opt/cellwright /opt/cellwright
RUN useradd --create-home --uid 10001 cellwright \
 && install --directory --owner=cellwright --group=cellwright /workspace /state
ENV PATH=/opt/cellwright/bin:$PATH \
    CELLWRIGHT_ROOT=/workspace \
    CELLWRIGHT_STATE_DIR=/state \
    CELLWRIGHT_HOST=0.0.0.0 \
    CELLWRIGHT_PORT=4040
USER cellwright
WORKDIR /workspace
VOLUME ["/workspace", "/state"]
EXPOSE 4040
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:4040/health', timeout=4)"]
# It listens for the network, so it refuses to start without a token: CELLWRIGHT_TOKEN_FILE (a mounted secret) or CELLWRIGHT_TOKEN.
CMD ["cellwright", "serve"]
