package report

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// A Field is a fact of an event.
type Field struct {
	Name  string
	Value any
}

// F makes a Field. Durations are written in seconds, times in RFC 3339, errors
// as their text.
func F(name string, value any) Field { return Field{name, value} }

// Events is events.jsonl: what happened to the crawl as a whole.
//
//	{"time":"2026-01-02T15:04:05.000Z","event":"host-slowed","host":"a.example","until":"…"}
type Events struct {
	*appender
	now func() time.Time
}

// OpenEvents opens an events.jsonl for appending; now stamps the events.
func OpenEvents(fs disk.FS, name string, now func() time.Time) (*Events, error) {
	a, err := openLines(fs, name)
	if err != nil {
		return nil, err
	}
	return &Events{a, now}, nil
}

// Write adds an event of a kind: started, resumed, host-slowed, rotated,
// checkpoint, stopping, stopped, error. An error of the log shows in Flush.
func (e *Events) Write(kind string, fields ...Field) {
	now := e.now()
	e.add(func(dst []byte) []byte {
		dst = append(dst, `{"time":"`...)
		dst = now.UTC().AppendFormat(dst, logTime)
		dst = append(dst, `","event":`...)
		dst = appendJSON(dst, kind)
		for _, f := range fields {
			dst = append(dst, ',')
			dst = appendJSON(dst, f.Name)
			dst = append(dst, ':')
			dst = appendJSON(dst, f.Value)
		}
		return append(dst, "}\n"...)
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
	dst, _ = appendEscaped(dst, b, true) // the log is looked at on terminals
	return dst
}

// A Skip is a URL that was found and not taken. The reasons are scope's and
// crawl's words; browsertrix-crawler's where it has the same.
type Skip struct {
	URL    string    `json:"url"`
	Via    string    `json:"via,omitempty"`
	Hops   string    `json:"hops,omitempty"`
	Seed   string    `json:"seed,omitempty"`
	Reason string    `json:"reason"`
	Detail string    `json:"detail,omitempty"`
	Time   time.Time `json:"time,omitzero"`
}

// Skipped is skipped.jsonl.
type Skipped struct{ *appender }

// OpenSkipped opens a skipped.jsonl for appending.
func OpenSkipped(fs disk.FS, name string) (*Skipped, error) {
	a, err := openLines(fs, name)
	if err != nil {
		return nil, err
	}
	return &Skipped{a}, nil
}

// Write adds a line. An error shows in Flush.
func (s *Skipped) Write(k Skip) { s.add(k.appendTo) }

// appendTo appends k and a newline, as encoding/json would: there can be many
// for a page.
func (k *Skip) appendTo(dst []byte) []byte {
	dst = appendString(append(dst, `{"url":`...), k.URL)
	for _, f := range [...]struct{ name, value string }{
		{`,"via":`, k.Via}, {`,"hops":`, k.Hops}, {`,"seed":`, k.Seed}, {`,"reason":`, k.Reason}, {`,"detail":`, k.Detail},
	} {
		if f.value != "" || f.name == `,"reason":` {
			dst = appendString(append(dst, f.name...), f.value)
		}
	}
	if !k.Time.IsZero() {
		if b, err := k.Time.MarshalJSON(); err == nil { // a year of five digits has no form
			dst = append(append(dst, `,"time":`...), b...)
		}
	}
	return append(dst, "}\n"...)
}

// appendString quotes s.
func appendString(dst []byte, s string) []byte {
	from := len(dst)
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		start := i
		for i < len(s) && s[i] >= ' ' && s[i] < 0x7f && s[i] != '"' && s[i] != '\\' && s[i] != '&' && s[i] != '<' && s[i] != '>' {
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
