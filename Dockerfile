# The image holds the program and nothing else: no shell, no libraries. "make release" makes the same
# image without Docker.
FROM golang:1.26 AS build
WORKDIR /src
COPY . .
RUN git config --global --add safe.directory /src && \
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /root-of-image/orbweaver ./cmd/orbweaver && \
	cd /root-of-image && mkdir crawl keys tmp licenses etc && \
	cp /src/LICENSE /src/cmd/orbweaver/THIRD-PARTY-LICENSES licenses && \
	echo 'orbweaver:x:65532:65532:Orbweaver:/crawl:/orbweaver' >etc/passwd && echo 'orbweaver:x:65532:' >etc/group && \
	chown 65532:65532 crawl keys && chmod 1777 tmp

FROM scratch
COPY --from=build /root-of-image/ /
USER 65532:65532
WORKDIR /crawl
VOLUME /crawl
ENTRYPOINT ["/orbweaver"]
CMD ["--help"]
