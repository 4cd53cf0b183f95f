package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The stream, which is made where it is missing. What is in it is worth something for as
// long as a lease.
const (
	streamName    = "EVENTSVC_TASKS"
	maxAge        = 24 * time.Hour // the longest lease
	duplicates    = 2 * time.Minute
	publishTime   = 2 * time.Second // for a message to be acknowledged
	reconnectWait = time.Second
)

// Backend is a connection to NATS, which is made again whenever it is lost.
type Backend struct {
	conn *nats.Conn
	js   jetstream.JetStream
	log  *slog.Logger
}

// Connect begins to connect; the server need not be there yet. The error is one of the
// URL, or of its credentials, and does not repeat them.
func Connect(url string, log *slog.Logger) (*Backend, error) {
	conn, err := nats.Connect(url, nats.Name("eventsvc"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("the connection to NATS is lost; connecting again", "err", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("NATS is connected again") }))
	if err != nil {
		return nil, errors.New("cannot be used: " + reason(err))
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	return &Backend{conn: conn, js: js, log: log}, nil
}

// reason is an error of connecting without the URL.
func reason(err error) string {
	var parse interface{ Unwrap() error }
	if errors.As(err, &parse) && parse.Unwrap() != nil {
		return parse.Unwrap().Error()
	}
	return err.Error()
}

// Close ends the connection.
func (b *Backend) Close() { b.conn.Close() }

var errAway = errors.New("NATS is not connected")

// Publish sends the proof of a claim to the workers of a lane, and returns once it is
// stored. An error says that it may not be.
func (b *Backend) Publish(ctx context.Context, lane string, m Message) error {
	if !b.conn.IsConnected() {
		return errAway
	}
	ctx, cancel := context.WithTimeout(ctx, publishTime)
	defer cancel()
	err := b.publish(ctx, lane, m)
	if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) {
		// The stream was never made, or is gone.
		if err = b.makeStream(ctx); err == nil {
			err = b.publish(ctx, lane, m)
		}
	}
	if err != nil {
		return fmt.Errorf("publish to %s: %w", subject(lane), err)
	}
	return nil
}

const targetHeader = "Eventsvc-Target"

func (b *Backend) publish(ctx context.Context, lane string, m Message) error {
	msg := nats.NewMsg(subject(lane))
	msg.Data = m.encode()
	msg.Header.Set(targetHeader, strconv.Itoa(int(m.Target)))
	_, err := b.js.PublishMsg(ctx, msg, jetstream.WithMsgID(m.name()))
	return err
}

func (b *Backend) makeStream(ctx context.Context) error {
	_, err := b.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: streamName, Subjects: []string{subjects + "*"}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
		MaxAge: maxAge, Duplicates: duplicates,
	})
	if err != nil {
		return fmt.Errorf("make the stream %s: %w", streamName, err)
	}
	return nil
}
