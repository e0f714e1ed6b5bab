package testweb

import "strings"

// DebianDocs returns the folders of Debian's documentation packages (docs.sh installs them), under the hosts where
// these pages are on the web: about 9,000 pages by many authors in thirty languages, with mirrors, broken links and
// redirects.
func DebianDocs() []Folder {
	const doc = "/usr/share/doc/"
	fs := []Folder{
		{Host: "docs.python.org", Dir: doc + "python3.11-doc/html"},
		{Host: "httpd.apache.org", Prefix: "/docs/2.4", Dir: doc + "apache2-doc/manual"},
		{Host: "www.postgresql.org", Dir: doc + "postgresql-doc-15/html"},
		{Host: "sqlite.org", Dir: doc + "sqlite3"},
		{Host: "debian-handbook.info", Prefix: "/browse/stable", Dir: doc + "debian-handbook/html/en-US", Home: NoHome},
		{Host: "nodejs.org", Prefix: "/api", Dir: doc + "nodejs/api"},
		// The same folder under a second path, as on the web: a mirror within one host.
		{Host: "nodejs.org", Prefix: "/docs/latest-v18.x/api", Dir: doc + "nodejs/api", Home: NoHome},
		{Host: "docs.djangoproject.com", Dir: doc + "python-django-doc/html"},
		{Host: "docs.sqlalchemy.org", Dir: doc + "python-sqlalchemy-doc/html"},
	}
	// The package has no page above its languages.
	home := "<!doctype html>\n<title>The Debian Administrator's Handbook</title>\n<ul>\n" +
		"<li><a href=\"/browse/stable/\">en-US</a>\n"
	for l := range strings.FieldsSeq(handbookLanguages) {
		home += "<li><a href=\"/browse/" + l + "/stable/\">" + l + "</a>\n"
		fs = append(fs, Folder{
			Host: "debian-handbook.info", Prefix: "/browse/" + l + "/stable", Dir: doc + "debian-handbook/html/" + l,
			Home: NoHome,
		})
	}
	fs = append(fs, Folder{Host: "debian-handbook.info", Index: home})
	for i := range fs {
		fs[i].Scheme = "https"
	}
	return fs
}

// handbookLanguages are the languages of the handbook other than English.
const handbookLanguages = `ar-MA ca-ES cs-CZ da-DK de-DE el-GR es-ES fa-IR fr-FR hr-HR id-ID it-IT ja-JP ko-KR nb-NO
	nl-NL pl-PL pt-BR ro-RO ru-RU sv-SE tr-TR vi-VN zh-CN zh-TW`

// DebianSeeds returns the home pages of DebianDocs, one for each host.
func DebianSeeds() []string {
	var seeds []string
	for _, f := range DebianDocs() {
		if u := f.Seed(); u != "" {
			seeds = append(seeds, u)
		}
	}
	return seeds
}
