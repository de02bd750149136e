# The S3 server of the quickstart. It stands on the base image, since its init container makes a folder.
ARG BASE=debian:12-slim
FROM ${BASE}
COPY program /usr/local/bin/versitygw
USER 65532:65532
ENTRYPOINT ["versitygw"]
