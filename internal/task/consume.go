package task

import (
	"context"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eventsvc/eventsvc/internal/event"
)

// Bounds of a consumer. A message is acknowledged as soon as its claim was taken: a
// worker that dies afterwards is made up for by the lease.
const (
	ackWait  = 30 * time.Second
	prefetch = 16
	pullTime = 5 * time.Second
	again    = time.Second // before a consumer is made anew, or a message given again
)

// Handler takes the claim of a message. False: it could not be found out whether that
// holds, so the message is to come again.
type Handler func(ctx context.Context, m Message) (done bool)

// Consume gives the messages of a lane to the handler until the context ends, one after
// the other: a handler that has no room for more does not return. What is lost, stream,
// consumer or connection, is made anew. What was fetched and not handled goes back.
func (b *Backend) Consume(ctx context.Context, lane string, handle Handler) {
	for ctx.Err() == nil {
		if err := b.consume(ctx, lane, handle); err != nil && ctx.Err() == nil {
			b.log.WarnContext(ctx, "what was handed over cannot be fetched; trying again", "lane", lane, "err", err)
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
		}
	}
}

func (b *Backend) consume(ctx context.Context, lane string, handle Handler) error {
	if !b.conn.IsConnected() {
		return errAway
	}
	making, cancel := context.WithTimeout(ctx, publishTime)
	defer cancel()
	if err := b.makeStream(making); err != nil {
		return err
	}
	consumer, err := b.js.CreateOrUpdateConsumer(making, streamName, jetstream.ConsumerConfig{
		Durable: "lane-" + token(lane), FilterSubject: subject(lane), AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxAckPending: -1,
	})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(prefetch), jetstream.PullExpiry(pullTime))
	if err != nil {
		return err
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Drain)()
	for {
		msg, err := messages.Next()
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			err = msg.Nak()
		default:
			err = b.receive(ctx, msg, handle)
		}
		if err != nil {
			b.log.DebugContext(ctx, "a message could not be acknowledged; it comes again, and proves nothing then", "err", err)
		}
	}
}

func (b *Backend) receive(ctx context.Context, msg jetstream.Msg, handle Handler) error {
	m, err := decode(msg.Data())
	if err != nil {
		b.log.WarnContext(ctx, "a message is no proof of a claim; nothing is run", "subject", msg.Subject(), "bytes", len(msg.Data()))
		return msg.Term()
	}
	if target, err := strconv.ParseInt(msg.Headers().Get(targetHeader), 10, 32); err == nil {
		m.Target = event.TargetID(target)
	}
	if !handle(ctx, m) {
		return msg.NakWithDelay(again)
	}
	return msg.Ack()
}
