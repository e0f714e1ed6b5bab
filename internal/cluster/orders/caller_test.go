package orders

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestText: an order with any text as its By passes Check.
func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                               "",
		" alice@ws ":                     "alice@ws",
		"a\nb\x1b[2J\u0085c":             "ab[2Jc",
		"bad\xff":                        "bad\ufffd",
		strings.Repeat("é", 101):         strings.Repeat("é", 100),
		"a" + strings.Repeat("é", 100):   "a" + strings.Repeat("é", 99),
		strings.Repeat("a", 199) + " bc": strings.Repeat("a", 199),
	} {
		if got := Text(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		o := sample()
		o.By = Text(string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text"))
		if err := o.Check(); err != nil || Text(o.By) != o.By {
			t.Fatalf("%q: %v", o.By, err)
		}
	})
}

func TestCaller(t *testing.T) {
	if got := Caller(t.Context()); got != "" {
		t.Errorf("%q without a caller", got)
	}
	if got := Caller(WithCaller(t.Context(), "alice\n@ws")); got != "alice@ws" {
		t.Errorf("caller %q", got)
	}
}
