package report

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/lines"
)

// A Field is one name and value of an event.
type Field struct {
	Name  string
	Value any
}

// F returns a Field. In the log a time.Duration becomes a number of seconds, a time.Time RFC 3339, an error its text.
func F(name string, value any) Field { return Field{name, value} }

// Pairs returns the fields that are given as names and values in turns.
func Pairs(pairs []any) (fs []Field) {
	for i := 0; i+1 < len(pairs); i += 2 {
		fs = append(fs, F(pairs[i].(string), pairs[i+1]))
	}
	return fs
}

// Events is events.jsonl: the events of the crawl as a whole. Its methods are safe for concurrent use.
//
//	{"type":"event","time":"2026-01-02T15:04:05.000Z","event":"host-paused","host":"a.example","until":"…"}
type Events struct {
	*lines.File
	clock clock.Clock
	last  *recent
}

// OpenEvents opens an events.jsonl for appending, like OpenLog. clock tells the time of an event.
func OpenEvents(fs disk.FS, name string, clock clock.Clock) (*Events, error) {
	a, err := lines.Open(fs, name, unsynced)
	if err != nil {
		return nil, err
	}
	return &Events{a, clock, newRecent()}, nil
}

// Write adds an event to the buffer. kind is its name, such as started, resumed, host-paused, checkpoint, stopping,
// stopped or error. Flush returns the error if the event cannot be written.
func (e *Events) Write(kind string, fields ...Field) {
	now := e.clock.Now()
	e.Add(func(dst []byte) []byte {
		from := len(dst)
		dst = append(dst, `{"type":"event","time":"`...)
		dst = now.UTC().AppendFormat(dst, logTime)
		dst = append(dst, `","event":`...)
		dst = appendJSON(dst, kind)
		for _, f := range fields {
			dst = append(dst, ',')
			dst = appendJSON(dst, f.Name)
			dst = append(dst, ':')
			dst = appendJSON(dst, f.Value)
		}
		dst = append(dst, '}')
		e.last.add(string(dst[from:]))
		return append(dst, '\n')
	})
}

func appendJSON(dst []byte, v any) []byte {
	switch x := v.(type) {
	case time.Duration:
		v = x.Seconds()
	case time.Time:
		if x.IsZero() {
			return append(dst, "null"...)
		}
		v = x.UTC().Format(logTime)
	case error:
		v = x.Error()
	case fmt.Stringer:
		v = x.String()
	}
	b, err := json.Marshal(v)
	if err != nil {
		b, _ = json.Marshal(fmt.Sprint(v))
	}
	dst, _ = appendEscaped(dst, b, true) // because people read the log on terminals
	return dst
}

// A Skip is a URL that was found and not accepted. Its Reason is a word of package scope or crawl. It is the word of
// browsertrix-crawler if that has the same reason.
type Skip struct {
	Time   time.Time `json:"ts"` // of the line
	URL    string    `json:"url"`
	Via    string    `json:"via,omitempty"`
	Hops   string    `json:"hops,omitempty"`
	Depth  int       `json:"depth"` // links from the seed, as --depth counts them
	Seed   string    `json:"seed,omitempty"`
	Reason string    `json:"reason"`
	Rule   string    `json:"rule,omitempty"` // the prefix in hosts: whose setting decided
}

// Skipped is skipped.jsonl. Its methods are safe for concurrent use.
type Skipped struct{ *lines.File }

// OpenSkipped opens a skipped.jsonl for appending, like OpenLog.
func OpenSkipped(fs disk.FS, name string) (*Skipped, error) {
	a, err := lines.Open(fs, name, unsynced)
	if err != nil {
		return nil, err
	}
	return &Skipped{a}, nil
}

// Write adds a line to the buffer. Flush returns the error if the line cannot be written.
func (s *Skipped) Write(k Skip) { s.Add(k.appendTo) }

// appendTo appends k and a newline in the form of encoding/json. It is faster than json.Marshal, because a page can
// have many such links.
func (k *Skip) appendTo(dst []byte) []byte {
	dst = k.Time.UTC().AppendFormat(append(dst, `{"ts":"`...), logTime)
	dst = appendString(append(dst, `","url":`...), k.URL)
	for _, f := range [...]struct{ name, value string }{
		{`,"via":`, k.Via}, {`,"hops":`, k.Hops}, {`,"seed":`, k.Seed}, {`,"reason":`, k.Reason},
		{`,"rule":`, k.Rule},
	} {
		if f.value != "" || f.name == `,"reason":` {
			dst = appendString(append(dst, f.name...), f.value)
		}
	}
	dst = strconv.AppendInt(append(dst, `,"depth":`...), int64(k.Depth), 10)
	return append(dst, "}\n"...)
}

// appendString appends s as a JSON string.
func appendString(dst []byte, s string) []byte {
	from := len(dst)
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		start := i
		for i < len(s) && s[i] >= ' ' && s[i] < 0x7f && s[i] != '"' && s[i] != '\\' &&
			s[i] != '&' && s[i] != '<' && s[i] != '>' {
			i++
		}
		dst = append(dst, s[start:i]...)
		if i == len(s) {
			break
		}
		if s[i] != '&' {
			return appendJSON(dst[:from], s)
		}
		dst = append(dst, `\u0026`...)
		i++
	}
	return append(dst, '"')
}
