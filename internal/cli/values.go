// Package cli answers: how do our programs parse command lines, write text on a terminal, and know their memory?
// It holds what orbweaver and orblab share: parsers whose errors say what would be right, and outputs that clean the
// text of servers and archives.
package cli

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/orbweaver/orbweaver/internal/quantity"
)

// negative matches a negative number or duration, which kong would take for a flag.
var negative = regexp.MustCompile(`^-[0-9.]`)

// Values returns the kong options by which flags of numbers, sizes and durations are
// parsed. Their errors say what would be right.
func Values() []kong.Option {
	from := func(what string, set func(target reflect.Value, s string) error) kong.Mapper {
		return kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
			var s string
			if v, ok := ctx.Scan.Peek().Value.(string); ok && negative.MatchString(v) {
				ctx.Scan.Pop() // kong takes it for a flag
				return set(target, v)
			}
			if err := ctx.Scan.PopValueInto(what, &s); err != nil {
				return err
			}
			return set(target, s)
		})
	}
	whole := from("number", func(target reflect.Value, s string) error {
		n, err := strconv.ParseInt(s, 10, target.Type().Bits())
		if err != nil {
			return fmt.Errorf("%q is not a whole number; write 100, for example", s)
		}
		target.SetInt(n)
		return nil
	})
	return []kong.Option{
		kong.TypeMapper(reflect.TypeFor[quantity.ByteSize](), from("size", func(target reflect.Value, s string) error {
			return target.Addr().Interface().(*quantity.ByteSize).UnmarshalText([]byte(s))
		})),
		kong.TypeMapper(reflect.TypeFor[quantity.Delay](), from("duration", func(target reflect.Value, s string) error {
			return target.Addr().Interface().(*quantity.Delay).UnmarshalText([]byte(s))
		})),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), from("duration", func(target reflect.Value, s string) error {
			d, err := quantity.ParseDuration(s)
			target.SetInt(int64(d))
			return err
		})),
		kong.KindMapper(reflect.Int, whole),
		kong.KindMapper(reflect.Int64, whole),
		kong.KindMapper(reflect.Uint64, from("number", func(target reflect.Value, s string) error {
			n, err := strconv.ParseUint(s, 10, 64)
			if err != nil {
				return fmt.Errorf("%q is not a whole number from 0; write 100, for example", s)
			}
			target.SetUint(n)
			return nil
		})),
		kong.KindMapper(reflect.Float64, from("number", func(target reflect.Value, s string) error {
			x, err := strconv.ParseFloat(s, 64)
			if err != nil || x-x != 0 { // neither infinite nor not a number
				return fmt.Errorf("%q is not a number; write 2.5, for example", s)
			}
			target.SetFloat(x)
			return nil
		})),
	}
}

// HelpText returns a flag's help followed by its default.
func HelpText(v *kong.Value) string {
	if !v.HasDefault || v.Default == "" {
		return v.Help
	}
	return strings.TrimSuffix(v.Help, ".") + " (default: " + v.Default + ")."
}
