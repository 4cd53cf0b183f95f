package api

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/danielgtaylor/huma/v2/yaml"

	"github.com/eventsvc/eventsvc/internal/registry"
)

// object is a JSON object in the making. Its members are written in the order of their
// names, so that a document of the same declarations is the same.
type object = map[string]any

// asyncAPI is the catalogue as an AsyncAPI 3.0.0 document: what receivers are sent in
// the format standard, and under which headers.
func asyncAPI(c *registry.Catalogue) ([]byte, error) {
	channels, operations, messages := object{}, object{}, object{}
	for i := range c.Types {
		t := &c.Types[i]
		messages[t.Type] = messageOf(t)
		channels[t.Type] = object{
			"address":     nil, // each receiver declares its own
			"description": describe(t),
			"messages":    object{"event": object{"$ref": "#/components/messages/" + t.Type}},
		}
		operations["send."+t.Type] = object{
			"action":   "send",
			"channel":  object{"$ref": "#/channels/" + t.Type},
			"messages": []object{{"$ref": "#/channels/" + t.Type + "/messages/event"}},
		}
	}
	doc, err := json.Marshal(object{
		"asyncapi":           "3.0.0",
		"info":               object{"title": "eventsvc", "version": apiVersion, "description": "Signed webhooks, one HTTP POST for each delivery, at least once."},
		"defaultContentType": "application/json",
		"channels":           channels,
		"operations":         operations,
		"components":         object{"messages": messages, "messageTraits": object{"delivery": object{"headers": headersOf()}}},
	})
	if err != nil {
		return nil, fmt.Errorf("encode the AsyncAPI document: %w", err)
	}
	var out bytes.Buffer
	if err := yaml.Convert(&out, bytes.NewReader(doc)); err != nil {
		return nil, fmt.Errorf("write the AsyncAPI document: %w", err)
	}
	return out.Bytes(), nil
}

func describe(t *registry.CataloguedType) string {
	if t.Description == "" {
		return "Events of type " + t.Type + "."
	}
	return t.Description
}

// messageOf is what a receiver of the type gets in the format standard.
func messageOf(t *registry.CataloguedType) object {
	var data any = true
	if t.Schema != nil {
		data = t.Schema
	}
	m := object{
		"name": t.Type, "title": t.Type, "summary": describe(t), "contentType": "application/json",
		"traits": []object{{"$ref": "#/components/messageTraits/delivery"}},
		"payload": object{
			"type": "object", "required": []string{"type", "timestamp", "data"},
			"properties": object{
				"type":      object{"const": t.Type},
				"timestamp": object{"type": "string", "format": "date-time", "description": "When it occurred."},
				"data":      data,
			},
		},
	}
	if t.Example != nil {
		m["examples"] = []object{{"payload": object{"type": t.Type, "timestamp": "2027-01-31T12:00:00Z", "data": t.Example}}}
	}
	return m
}

// headersOf are those of every attempt.
func headersOf() object {
	text := func(about string) object { return object{"type": "string", "description": about} }
	return object{
		"type": "object", "required": []string{"webhook-id", "webhook-timestamp", "webhook-signature"},
		"properties": object{
			"webhook-id":              text("The delivery's id: the same on every attempt."),
			"webhook-timestamp":       text("Of this attempt, in Unix seconds."),
			"webhook-signature":       text("Standard Webhooks: v1 and base64 of HMAC-SHA256, one for each live secret."),
			"eventsvc-event-id":       text("The event's id."),
			"eventsvc-event-type":     text("The event's type."),
			"eventsvc-delivery-id":    text("The delivery's id."),
			"eventsvc-receiver":       text("The receiver's key."),
			"eventsvc-target":         text("The target, where the receiver has targets."),
			"eventsvc-attempt":        text("1 for the first."),
			"eventsvc-max-attempts":   text("How many there may be."),
			"eventsvc-due-at":         text("When scheduled work is due."),
			"eventsvc-correlation-id": text("The chain that the event belongs to."),
			"traceparent":             text("W3C Trace Context of the attempt's span."),
		},
	}
}
