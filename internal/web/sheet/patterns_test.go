package sheet

import (
	"strings"
	"testing"
)

// The size of an expression is that with its repetitions written out.
func TestCheckSize(t *testing.T) {
	for expr, ok := range map[string]bool{
		"": true, "/calendar/": true, "x{1000}": true, "(a|b){3,}": true, `\pL{0,900}`: true, "(": true,
		strings.Repeat("x", 2000): true, strings.Repeat("x{1000}", 9): true, "((ab){10}){10}": true,
		strings.Repeat(`\pL`, 100): true, "(?i)" + strings.Repeat(`\pL`, 660): false,
		strings.Repeat("x{1000}", 285): false, strings.Repeat(`(\pL\d){500}`, 100): false,
	} {
		if err := CheckSize(expr); (err == nil) != ok || err != nil && len(err.Error()) > 300 {
			t.Errorf("%.40s: %v", expr, err)
		}
	}
}

// Many expressions are bounded together. One that does not fit leaves room for smaller ones.
func TestSizes(t *testing.T) {
	var s Sizes
	large := strings.Repeat("x{1000}", 9) // 9,000 steps
	for i := range 40 {
		if err := s.Add(large); (err == nil) != (i < 27) {
			t.Fatalf("expression %d: %v", i, err)
		}
	}
	for expr, ok := range map[string]bool{"/calendar/": true, "(": false, strings.Repeat("x{1000}", 285): false} {
		if err := s.Add(expr); (err == nil) != ok {
			t.Errorf("%.40s: %v", expr, err)
		}
	}
}
