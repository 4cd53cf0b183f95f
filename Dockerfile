# Two stages: the compiler stays behind, and what runs is one static binary.
FROM golang:1.26 AS build
WORKDIR /src
# Dependencies first: they change seldom, and this layer is then kept.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /eventsvc ./cmd/eventsvc

# CA certificates, time zones and an unprivileged user; no shell and no package manager.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /eventsvc /eventsvc
USER 65532:65532
EXPOSE 8080
HEALTHCHECK --interval=5s --timeout=4s --retries=10 CMD ["/eventsvc", "healthcheck"]
ENTRYPOINT ["/eventsvc"]
CMD ["serve"]
