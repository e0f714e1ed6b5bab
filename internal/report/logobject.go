package report

import (
	"bytes"
	"strconv"

	"github.com/orbweaver/orbweaver/internal/store/lines"
)

// objects is the form of the lines of crawl.jsonl.
type objects struct{}

func (objects) Append(dst, line []byte) []byte { return appendObject(dst, line) }

// appendObject appends the JSON object for a line of crawl.log, as crawl.jsonl has it, and a newline. It allocates
// nothing. It leaves out a line with a number or a time that Line.AppendTo cannot have written, or without the twelve
// columns: a disk can damage a line. A field without a value is missing. The texts are those of the columns, with the
// same percent-encoding.
//
//	ts            column 1, when the line was logged
//	status        column 2
//	size          column 3
//	url           column 4
//	hops          column 5
//	via           column 6
//	mime          column 7
//	worker        column 8
//	time, took_s  column 9: when the request was sent, and seconds
//	digest        column 10
//	seed          column 11
//	error         the kind of error, if column 12 has error:KIND
//	notes         column 12: a list of all annotations
func appendObject(dst, line []byte) []byte {
	var col [12][]byte
	for i := range col {
		line = bytes.TrimLeft(line, " ")
		n := bytes.IndexByte(line, ' ')
		if last := i == len(col)-1; last != (n < 0) {
			return dst
		} else if last {
			n = len(line)
		}
		col[i], line = line[:n], line[n:]
	}
	status, ok := decimal(col[1])
	size, hasSize := decimal(col[2])
	thread, isThread := bytes.CutPrefix(col[7], []byte("#"))
	worker, isNumber := decimal(thread)
	began, took, requested := bytes.Cut(col[8], []byte("+"))
	ms, isTime := decimal(took)
	switch {
	case !ok || !isThread || !isNumber || worker < 0, !hasForm(col[0], "0000-00-00T00:00:00.000Z"),
		hasSize && size < 0, !hasSize && string(col[2]) != "-",
		requested && (!isTime || ms < 0 || !hasForm(began, "00000000000000000")), !requested && string(began) != "-":
		return dst
	}
	dst = lines.AppendString(append(dst, `{"ts":`...), col[0])
	dst = strconv.AppendInt(append(dst, `,"status":`...), status, 10)
	if hasSize {
		dst = strconv.AppendInt(append(dst, `,"size":`...), size, 10)
	}
	dst = appendText(dst, `,"url":`, col[3], "-")
	dst = appendText(dst, `,"hops":`, col[4], "-")
	dst = appendText(dst, `,"via":`, col[5], "-")
	dst = appendText(dst, `,"mime":`, col[6], "unknown")
	dst = strconv.AppendInt(append(dst, `,"worker":`...), worker, 10)
	if requested {
		dst = append(dst, `,"time":"`...)
		for _, part := range [...]struct {
			from, to int
			after    byte
		}{{0, 4, '-'}, {4, 6, '-'}, {6, 8, 'T'}, {8, 10, ':'}, {10, 12, ':'}, {12, 14, '.'}, {14, 17, 'Z'}} {
			dst = append(append(dst, began[part.from:part.to]...), part.after)
		}
		dst = strconv.AppendInt(append(dst, `","took_s":`...), ms/1000, 10)
		dst = append(dst, '.', digit(int(ms%1000/100)), digit(int(ms%100/10)), digit(int(ms%10)))
	}
	dst = appendText(dst, `,"digest":`, col[9], "-")
	dst = appendText(dst, `,"seed":`, col[10], "-")
	return append(appendNotes(dst, col[11]), "}\n"...)
}

// appendText appends a field, unless the text is the one that stands for none.
func appendText(dst []byte, name string, text []byte, none string) []byte {
	if string(text) == none {
		return dst
	}
	return lines.AppendString(append(dst, name...), text)
}

// appendNotes appends the annotations, and the kind of error that one of them has.
func appendNotes(dst, notes []byte) []byte {
	if string(notes) == "-" {
		return dst
	}
	for rest := notes; len(rest) > 0; {
		var note []byte
		note, rest, _ = bytes.Cut(rest, []byte(","))
		if kind, ok := bytes.CutPrefix(note, []byte("error:")); ok {
			dst = lines.AppendString(append(dst, `,"error":`...), kind)
			break
		}
	}
	dst = append(dst, `,"notes":[`...)
	for first := true; len(notes) > 0; first = false {
		var note []byte
		if !first {
			dst = append(dst, ',')
		}
		note, notes, _ = bytes.Cut(notes, []byte(","))
		dst = lines.AppendString(dst, note)
	}
	return append(dst, ']')
}

// hasForm reports that text is like form, with any digit for each 0.
func hasForm(text []byte, form string) bool {
	if len(text) != len(form) {
		return false
	}
	for i, c := range text {
		if c != form[i] && (form[i] != '0' || c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// decimal reads a decimal number of at most 18 digits.
func decimal(text []byte) (n int64, ok bool) {
	digits, negative := bytes.CutPrefix(text, []byte("-"))
	if len(digits) == 0 || len(digits) > 18 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}
