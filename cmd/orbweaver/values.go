package main

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"time"

	"github.com/alecthomas/kong"
	"github.com/dustin/go-humanize"
)

// byteSize is a number of bytes as people write it: 500MB, 2GiB, 1048576.
type byteSize int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *byteSize) UnmarshalText(text []byte) error {
	if len(text) > 0 && text[0] == '-' {
		return fmt.Errorf("%q is negative; a size is a number of bytes such as 100, 500MB or 2GiB", text)
	}
	n, err := humanize.ParseBytes(string(text))
	if err != nil || n > 1<<62 {
		return fmt.Errorf("%q is not a size in bytes; write 500MB, 2GiB or 1048576", text)
	}
	*b = byteSize(n)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (b byteSize) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%d", int64(b)), nil }

// negative matches a negative number or duration.
var negative = regexp.MustCompile(`^-[0-9.]`)

// values are kong options by which numbers and durations are read; the errors
// say what would be right.
func values() []kong.Option {
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
		kong.TypeMapper(reflect.TypeFor[byteSize](), from("size", func(target reflect.Value, s string) error {
			return target.Addr().Interface().(*byteSize).UnmarshalText([]byte(s))
		})),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), from("duration", func(target reflect.Value, s string) error {
			d, err := time.ParseDuration(s)
			if err != nil {
				return fmt.Errorf("%q is not a duration; write 500ms, 90s or 2h30m", s)
			}
			target.SetInt(int64(d))
			return nil
		})),
		kong.KindMapper(reflect.Int, whole),
		kong.KindMapper(reflect.Int64, whole),
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
