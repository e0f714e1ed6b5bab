package sheet

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// Patterns are regular expressions, both separately and as one alternation. The zero Patterns has none.
type Patterns struct {
	each []*regexp.Regexp
	any  *regexp.Regexp // nil if there are none
}

// Compile compiles regular expressions in Go's syntax. Its error names each bad expression, the position of the
// fault and a hint. It begins with what, the name of the setting.
func Compile(what string, exprs []string) (p Patterns, err error) {
	var errs []error
	for i, e := range exprs {
		re, err := compile(e)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %d of %d: %w", what, i+1, len(exprs), err))
			continue
		}
		p.each = append(p.each, re)
	}
	if err := errors.Join(errs...); err != nil || len(exprs) == 0 {
		return Patterns{}, err
	}
	if p.any = p.each[0]; len(exprs) > 1 {
		if p.any, err = regexp.Compile("(?:" + strings.Join(exprs, ")|(?:") + ")"); err != nil {
			return Patterns{}, fmt.Errorf("%s: the %d regular expressions combined: %w; use fewer or shorter ones",
				what, len(exprs), err)
		}
	}
	return p, nil
}

// None reports that there are no expressions.
func (p *Patterns) None() bool { return p.any == nil }

// Exprs returns the expressions.
func (p *Patterns) Exprs() (exprs []string) {
	for _, re := range p.each {
		exprs = append(exprs, re.String())
	}
	return exprs
}

// Match reports whether an expression matches anywhere in s.
func (p *Patterns) Match(s string) bool { return p.any != nil && p.any.MatchString(s) }

// Explain returns text for people that says which expression matches s.
func (p *Patterns) Explain(s string) string {
	if p.any == nil {
		return "none configured"
	}
	for i, re := range p.each {
		if re.MatchString(s) {
			return fmt.Sprintf("number %d matches: %s", i+1, re)
		}
	}
	return fmt.Sprintf("none of %d matches", len(p.each))
}

// compile compiles expr. Its error names the expression, the position of the fault and a hint.
func compile(expr string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(expr)
	if err == nil {
		return re, nil
	}
	var se *syntax.Error
	if !errors.As(err, &se) {
		return nil, fmt.Errorf("regular expression %q: %w", expr, err)
	}
	where := ""
	if at := strings.Index(expr, se.Expr); at >= 0 && se.Expr != "" {
		where = fmt.Sprintf(" at character %d, %q", 1+len([]rune(expr[:at])), se.Expr)
	}
	hint := ""
	switch se.Code {
	case syntax.ErrInvalidPerlOp:
		hint = "; lookaheads, lookbehinds and back references are not supported; combine an include and an exclude"
	case syntax.ErrMissingRepeatArgument:
		hint = `; this is not a file name pattern: write .* for any text, \* or \+ for the literal sign`
	case syntax.ErrMissingParen, syntax.ErrUnexpectedParen:
		hint = `; write \( or \) for a literal parenthesis`
	case syntax.ErrMissingBracket:
		hint = `; write \[ for a literal bracket`
	}
	return nil, fmt.Errorf("regular expression %q: %s%s%s (syntax: https://golang.org/s/re2syntax)",
		expr, se.Code, where, hint)
}

// CheckPattern returns the error of an expression that Compile refuses, without a count. It is for people.
func CheckPattern(expr string) error {
	_, err := compile(expr)
	return err
}

// maxSteps bounds the steps of an expression that CheckSize accepts. A step takes about 200 bytes while it is compiled.
const maxSteps = 10_000

// runesOfStep is how many runes of classes take the memory of a step: \pL has 1,300 runes of four bytes.
const runesOfStep = 50

// maxTogether bounds the steps of the expressions of a Sizes. Compiled, a step takes about 80 bytes, because each
// expression is there separately and in an alternation.
const maxTogether = 250_000

// CheckSize returns an error, for people, if an expression is large once its repetitions are written out: x{1000} has
// 1000 steps. It compiles nothing, so it bounds the memory of a stranger's expression. It does not report an expression
// that is wrong.
func CheckSize(expr string) error {
	if size(expr) > maxSteps {
		return fmt.Errorf("regular expression %.80q: its repetitions make it too large; use smaller numbers", expr)
	}
	return nil
}

// A Sizes is the size of expressions that are in force together. The zero Sizes has none.
type Sizes struct{ steps, count int }

// Add adds an expression. If CheckSize or CheckPattern refuses it, or if all would be too large together, it returns an
// error, for people, and has not added it.
func (s *Sizes) Add(expr string) error {
	if err := cmp.Or(CheckSize(expr), CheckPattern(expr)); err != nil {
		return err
	}
	n := size(expr)
	if s.steps+n > maxTogether {
		return fmt.Errorf("regular expression %.80q: with the %d that are in force, all would be too large; take some "+
			"back, or use shorter ones", expr, s.count)
	}
	s.steps += n
	s.count++
	return nil
}

// size returns the steps of an expression; 0 if it is wrong.
func size(expr string) int {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return 0
	}
	return steps(re) + runes(re)/runesOfStep
}

// runes counts the runes of all classes. A repetition shares those of its part.
func runes(re *syntax.Regexp) (n int) {
	if re.Op == syntax.OpCharClass {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += runes(sub)
	}
	return n
}

// steps counts the steps of an expression, up to a little more than maxSteps.
func steps(re *syntax.Regexp) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpRepeat:
		n = steps(re.Sub[0]) * max(re.Min, re.Max, 1)
	default:
		for _, sub := range re.Sub {
			n += steps(sub)
		}
	}
	return min(n, maxSteps+1)
}
