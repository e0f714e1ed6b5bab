package orders

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"
)

// callerKey is the context key of the person or program that gives orders.
type callerKey struct{}

// WithCaller returns a context that names who gives an order, as Text cuts it.
func WithCaller(ctx context.Context, by string) context.Context {
	return context.WithValue(ctx, callerKey{}, Text(by))
}

// Caller returns the name that WithCaller has put into the context; "" if there is none.
func Caller(ctx context.Context) string {
	by, _ := ctx.Value(callerKey{}).(string)
	return by
}

// Text returns s as the By of an order may have it: valid UTF-8, at most MaxText bytes. It removes control characters
// and space around the text.
func Text(s string) string {
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd")))
	if len(s) <= MaxText {
		return s
	}
	end := MaxText
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return strings.TrimSpace(s[:end])
}
