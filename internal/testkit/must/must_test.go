package must

import (
	"errors"
	"testing"
)

// spy records what a test would have said.
type spy struct{ said []any }

func (*spy) Helper()             {}
func (s *spy) Fatal(args ...any) { s.said = append(s.said, args...) }

// TestMust: an error ends the test, and without one it goes on.
func TestMust(t *testing.T) {
	var s spy
	Do(&s, nil)
	if got := Get(7, nil)(&s); got != 7 || len(s.said) > 0 {
		t.Errorf("without an error: got %d, said %v", got, s.said)
	}
	bad := errors.New("bad")
	Do(&s, bad)
	Get(7, bad)(&s)
	if len(s.said) != 2 || s.said[0] != bad || s.said[1] != bad {
		t.Errorf("with errors: said %v", s.said)
	}
}
