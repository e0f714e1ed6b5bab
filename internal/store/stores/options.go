package stores

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/object/s3"
)

// options are the names of the options of a store of S3, as NAME=VALUE.
var options = []string{"class", "encryption", "kms-key", "lock", "path-style", "retain"}

// mostDays bounds a retention. S3 allows 100 years.
const mostDays = 36500

// readOptions adds options, as NAME=VALUE, to those of S3. The error says which one is wrong, and what is right.
func readOptions(list []string, o *s3.Options) error {
	for _, text := range list {
		name, value, _ := strings.Cut(text, "=")
		if !slices.Contains(options, name) {
			return fmt.Errorf("%q: the options are %s, as NAME=VALUE", text, strings.Join(options, ", "))
		}
		if value == "" {
			return fmt.Errorf("%q: give a value, as in %s=VALUE", text, name)
		}
		switch name {
		case "class":
			o.Class = value
		case "encryption":
			o.Encryption = value
		case "kms-key":
			o.Key = value
		case "lock":
			o.Retention = strings.ToUpper(value)
		case "path-style":
			yes, err := strconv.ParseBool(value)
			if err != nil {
				return fmt.Errorf("%q: give path-style=true or path-style=false", text)
			}
			o.PathStyle = yes
		case "retain":
			days, err := strconv.Atoi(strings.TrimSuffix(value, "d"))
			if err != nil || days < 1 || days > mostDays {
				return fmt.Errorf("%q: give a number of days from 1 to %d, such as retain=30d", text, mostDays)
			}
			o.Retain = time.Duration(days) * 24 * time.Hour
		}
	}
	switch {
	case o.Retention != "" && o.Retain == 0:
		return fmt.Errorf("lock=%s needs the time for which it holds, such as retain=30d", o.Retention)
	case o.Retention == "" && o.Retain > 0:
		return errors.New("retain needs lock=governance or lock=compliance")
	}
	return o.Check()
}

// CheckOptions returns an error if the options are wrong, or the store cannot have them.
func (p Place) CheckOptions() error {
	o := p.S3
	if err := readOptions(p.Options, &o); err != nil {
		return err
	}
	if strings.HasPrefix(p.URL, "file:") && len(p.Options) > 0 {
		return fmt.Errorf("%q: a mounted directory has no options; they are for s3://", p.Options[0])
	}
	return nil
}
