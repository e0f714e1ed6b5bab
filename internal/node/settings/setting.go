package settings

import (
	"cmp"
	"encoding"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/orbweaver/orbweaver/internal/node/admin"
	"github.com/orbweaver/orbweaver/internal/quantity"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// A Setting is one of the list: a field of Settings, with its tags.
type Setting struct {
	Name  string // such as page-limit
	field reflect.StructField
	group string // of the help
}

// list has all settings, in the order of the help.
var list = func() (all []Setting) {
	for group := range reflect.TypeFor[Settings]().Fields() {
		for f := range group.Type.Fields() {
			name, ok := f.Tag.Lookup("name")
			if !ok {
				name = hyphenated(f.Name)
			}
			f.Index = append(slices.Clone(group.Index), f.Index...)
			all = append(all, Setting{name, f, group.Tag.Get("group")})
		}
	}
	return all
}()

// All returns the settings, in the order of the help.
func All() iter.Seq[Setting] { return slices.Values(list) }

// hyphenated returns the name of a setting for that of its field: HostPageLimit is host-page-limit.
func hyphenated(field string) string {
	var b strings.Builder
	for i, c := range field {
		if unicode.IsUpper(c) && i > 0 {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// named returns the setting of a name.
func named(name string) Setting {
	return list[slices.IndexFunc(list, func(o Setting) bool { return o.Name == name })]
}

// of returns the value of the setting in s.
func (o Setting) of(s *Settings) reflect.Value {
	return reflect.ValueOf(s).Elem().FieldByIndex(o.field.Index)
}

// Option returns the path of the option in the library, such as Options.Cluster.Kappa or Walk.Jump, of WalkOptions. It
// is "" if there is none.
func (o Setting) Option() string {
	path, ok := o.field.Tag.Lookup("option")
	if at := o.field.Tag.Get("at"); at != "" {
		path, ok = at, true
	}
	of, _, _ := strings.Cut(path, ".")
	switch {
	case !ok:
		return ""
	case path == "":
		return "Options." + o.field.Name
	case of == "Focused" || of == "Recrawl" || of == "Walk":
		return path
	}
	return "Options." + path
}

// Into returns the paths of the fields of target that have the value of the setting.
func (o Setting) Into() (paths []string) {
	return strings.FieldsFunc(o.field.Tag.Get("into")+","+o.field.Tag.Get("at"), func(c rune) bool { return c == ',' })
}

// usual returns the default of the setting.
func (o Setting) usual() reflect.Value { return o.read(o.field.Tag.Get("default")) }

// read returns the value that a text of the list means. "" is zero.
func (o Setting) read(text string) reflect.Value {
	v := reflect.New(o.field.Type).Elem()
	if v.Kind() == reflect.Pointer && text != "" {
		v = reflect.New(o.field.Type.Elem()).Elem()
	}
	if err := parse(v, text); err != nil {
		panic(fmt.Sprintf("settings: %s: %q: %v", o.Name, text, err))
	}
	return v
}

// parse reads a text into v. "" leaves it as it is.
func parse(v reflect.Value, text string) error {
	if text == "" {
		return nil
	}
	if t, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return t.UnmarshalText([]byte(text))
	}
	switch {
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Type() == reflect.TypeFor[time.Duration]():
		d, err := time.ParseDuration(text)
		v.SetInt(int64(d))
		return err
	case v.CanInt():
		n, err := strconv.ParseInt(text, 10, 64)
		v.SetInt(n)
		return err
	case v.CanUint():
		n, err := strconv.ParseUint(text, 10, 64)
		v.SetUint(n)
		return err
	case v.CanFloat():
		x, err := strconv.ParseFloat(text, 64)
		v.SetFloat(x)
		return err
	default:
		return fmt.Errorf("a %s has no text", v.Type())
	}
	return nil
}

// Text returns the value of a setting for people.
func Text(value any) string {
	switch x := reflect.Indirect(reflect.ValueOf(value)); {
	case !x.IsValid():
		return "none"
	case x.Kind() == reflect.Slice && x.Type().Name() == "":
		var all []string
		for i := range x.Len() {
			all = append(all, fmt.Sprint(x.Index(i).Interface()))
		}
		return strings.Join(all, ", ")
	default:
		return fmt.Sprint(x.Interface())
	}
}

// Redacted returns the value of a setting without secrets.
func Redacted(name string, value any) any {
	switch name {
	case "header":
		return sheet.RedactHeaders(value.([]string))
	case "proxy":
		return RedactProxy(value.(string))
	}
	return value
}

// shown returns the settings for the console, without secrets.
func (s *Settings) shown() (all []admin.Setting) {
	for o := range All() {
		all = append(all, admin.Setting{Group: o.group, Name: o.Name,
			Value: Text(Redacted(o.Name, o.of(s).Interface())), Default: Text(o.usual().Interface())})
	}
	return all
}

// Defaults returns the settings of a crawl for which none is given.
func Defaults() *Settings {
	s := new(Settings)
	for o := range All() {
		o.of(s).Set(o.usual())
	}
	return s
}

// compare returns -1, 0 or 1 as the number a is less than, equal to or greater than b. ok is false if a is no number.
func compare(a, b reflect.Value) (order int, ok bool) {
	switch {
	case a.CanInt():
		return cmp.Compare(a.Int(), b.Int()), true
	case a.CanUint():
		return cmp.Compare(a.Uint(), b.Uint()), true
	}
	return cmp.Compare(a.Float(), b.Float()), a.Float() == a.Float()
}

// automatic reports whether v is the Delay that has no number.
func automatic(v reflect.Value) bool {
	d, ok := v.Interface().(quantity.Delay)
	return ok && d == quantity.Auto
}
