package warc

import (
	"errors"
	"io"
)

// A Row describes one record in a listing. A field that the record lacks is empty.
type Row struct {
	Offset int64  `json:"offset"`
	Length int64  `json:"length"` // bytes in the file; 0 if the record shares its gzip member with others
	Type   string `json:"type"`
	Status string `json:"status,omitempty"`
	MIME   string `json:"mime,omitempty"` // of the HTTP message; of the record if it holds none
	Date   string `json:"date"`
	URL    string `json:"url,omitempty"`
}

// List calls emit for every record of the WARC file r, in the order of the file. It continues behind damage. It returns
// the first error of emit, or of reading r, or at the end Flaws.
func List(r io.Reader, emit func(Row) error) error {
	var flaws Flaws
	rd := flaws.reader(r, 0)
	for {
		rec, err := rd.Next()
		if err == io.EOF {
			return flaws.err()
		}
		if err != nil {
			return err
		}
		row, err := rowOf(rec)
		if err == nil {
			err = rd.Finish()
		}
		if errors.Is(err, ErrDamaged) {
			continue // Next notes it
		}
		if err != nil {
			return err
		}
		row.Length = rec.Length
		if err := emit(row); err != nil {
			return err
		}
	}
}

func rowOf(rec *Record) (Row, error) {
	row := Row{Offset: rec.Offset, Type: rec.Type(), Date: rec.Date(), URL: rec.URL()}
	if row.URL == "" {
		row.URL = rec.Header.Value("WARC-Filename")
	}
	head, err := rec.HTTPHead()
	if err != nil {
		return row, err
	}
	if head == nil {
		if t := rec.Header.Value("Content-Type"); t != "" {
			row.MIME = mimeOf(t)
		}
		return row, nil
	}
	h := parseHead(head)
	if row.Type != "request" {
		row.Status = h.Status
	}
	if h.Type != "" {
		row.MIME = h.MIME()
	}
	return row, nil
}

// At reads the record that begins at byte offset of a WARC file. If the file ends there, the error wraps
// io.ErrUnexpectedEOF.
func At(r io.ReadSeeker, offset int64) (*Record, error) {
	if offset < 0 {
		return nil, &DamageError{offset, "no position in a file"}
	}
	if _, err := r.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	rec, err := NewReaderAt(r, offset).Next()
	if err == io.EOF {
		return nil, &DamageError{offset, "the file ends before this record"}
	}
	return rec, err
}

// Find returns the first capture (response, resource, revisit or conversion) of url in a WARC file. It compares sort
// keys (SURT), as replay tools do. If there is none, Find returns nil. It reads no further than the capture. If it had
// to pass over damage, the error is Flaws, also beside a capture; other errors are of reading r.
func Find(r io.Reader, url string) (*Record, error) {
	key := surt(url)
	var flaws Flaws
	rd := flaws.reader(r, 0)
	for {
		rec, err := rd.Next()
		if err == io.EOF {
			return nil, flaws.err()
		}
		if err != nil {
			return nil, err
		}
		switch rec.Type() {
		case "response", "resource", "revisit", "conversion":
			if u := rec.URL(); u == url || surt(u) == key {
				return rec, flaws.err()
			}
		}
	}
}
