package s3

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/orbweaver/orbweaver/internal/store/object"
)

// A chain finds credentials as the tools of AWS do. minio-go has such a chain, too, but it reads the environment of the
// process, and its messages do not say what is missing. The first of these that is set up is taken:
//
//	AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
//	AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN        Kubernetes, with STS
//	the profile in ~/.aws/credentials and ~/.aws/config
//	AWS_CONTAINER_CREDENTIALS_RELATIVE_URI, _FULL_URI   ECS, EKS
//	the metadata service of the machine                 EC2, unless AWS_EC2_METADATA_DISABLED is true
//
// It implements credentials.Provider. Its owner calls it from one goroutine at a time.
type chain struct {
	credentials.Expiry
	settings *settings
	secrets  *secrets
	client   *http.Client
}

// Retrieve implements credentials.Provider. Nothing calls it.
func (c *chain) Retrieve() (credentials.Value, error) { return c.RetrieveWithCredContext(nil) }

// RetrieveWithCredContext implements credentials.Provider.
func (c *chain) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	ctx := context.Background()
	if cc != nil && cc.Context != nil {
		ctx = cc.Context
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	k, err := c.find(ctx)
	if err != nil {
		return credentials.Value{}, err
	}
	c.secrets.keep(k.SecretAccessKey, k.SessionToken)
	if k.Expiration.IsZero() {
		c.SetExpiration(time.Now().Add(15*time.Minute), 0) // files may change
	} else {
		c.SetExpiration(k.Expiration, credentials.DefaultExpiryWindow)
	}
	return credentials.Value{AccessKeyID: k.AccessKeyID, SecretAccessKey: k.SecretAccessKey,
		SessionToken: k.SessionToken, Expiration: k.Expiration, SignerType: credentials.SignatureV4}, nil
}

// keys are credentials, as the services of AWS write them.
type keys struct {
	AccessKeyID     string `json:"AccessKeyId" xml:"AccessKeyId"`
	SecretAccessKey string
	SessionToken    string `json:"Token"`
	Expiration      time.Time
}

func (c *chain) find(ctx context.Context) (keys, error) {
	env := c.settings.env
	id, secret := variable(env, "AWS_ACCESS_KEY_ID"), variable(env, "AWS_SECRET_ACCESS_KEY")
	if id != "" && secret != "" {
		return keys{AccessKeyID: id, SecretAccessKey: secret, SessionToken: variable(env, "AWS_SESSION_TOKEN")}, nil
	}
	if id != "" || secret != "" {
		return keys{}, fmt.Errorf("%w (only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set: set both)",
			object.ErrNoKeys)
	}
	if file := variable(env, "AWS_WEB_IDENTITY_TOKEN_FILE"); file != "" {
		return c.webIdentity(ctx, file, variable(env, "AWS_ROLE_ARN"))
	}
	p, found, err := c.settings.read()
	if err != nil {
		return keys{}, fmt.Errorf("%w (%w)", object.ErrNoKeys, err)
	}
	if p["aws_access_key_id"] != "" && p["aws_secret_access_key"] != "" {
		return keys{AccessKeyID: p["aws_access_key_id"], SecretAccessKey: p["aws_secret_access_key"],
			SessionToken: p["aws_session_token"]}, nil
	}
	if p["web_identity_token_file"] != "" {
		return c.webIdentity(ctx, p["web_identity_token_file"], p["role_arn"])
	}
	for _, other := range []string{"sso_session", "sso_start_url", "credential_process", "source_profile"} {
		if p[other] != "" {
			return keys{}, fmt.Errorf("%w (profile %s has %s, which is not supported: run "+
				"\"aws configure export-credentials\" and set AWS_ variables to what it prints)",
				object.ErrNoKeys, c.settings.profile, other)
		}
	}
	if c.settings.named && found {
		return keys{}, fmt.Errorf("%w (profile %s has no aws_access_key_id and aws_secret_access_key)",
			object.ErrNoKeys, c.settings.profile)
	}
	if at := variable(env, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); at != "" {
		return c.container(ctx, "http://169.254.170.2"+at)
	}
	if at := variable(env, "AWS_CONTAINER_CREDENTIALS_FULL_URI"); at != "" {
		return c.container(ctx, at)
	}
	if strings.EqualFold(variable(env, "AWS_EC2_METADATA_DISABLED"), "true") {
		return keys{}, fmt.Errorf("%w (%s)", object.ErrNoKeys, howKeys)
	}
	k, err := c.machine(ctx)
	if err != nil {
		return keys{}, fmt.Errorf("%w (%s; the metadata service of the machine gave none either: %s)", object.ErrNoKeys,
			howKeys, cause(err))
	}
	return k, nil
}

const howKeys = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile in ~/.aws/credentials"

// cause returns an error without the URL.
func cause(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// maxKeys bounds the answers of services that give credentials, in bytes.
const maxKeys = 64 << 10

// ask makes a request to a service that gives credentials. Its answer is never quoted.
func (c *chain) ask(ctx context.Context, method, at string, header http.Header, form url.Values) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, at, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("its address is no URL")
	}
	req.Header = header
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, cause(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxKeys+1))
	switch {
	case err != nil:
		return nil, cause(err)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it answered %d", resp.StatusCode)
	case len(b) > maxKeys:
		return nil, fmt.Errorf("it answered with over %d bytes", maxKeys)
	}
	return b, nil
}

// machine asks the metadata service of EC2, by IMDSv2.
func (c *chain) machine(ctx context.Context) (k keys, err error) {
	base := variable(c.settings.env, "AWS_EC2_METADATA_SERVICE_ENDPOINT")
	if base == "" {
		base = "http://169.254.169.254"
	}
	base = strings.TrimSuffix(base, "/")
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second) // only EC2 answers
	defer cancel()
	token, err := c.ask(ctx, http.MethodPut, base+"/latest/api/token",
		http.Header{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": {"21600"}}, nil)
	if err != nil {
		return k, err
	}
	header := http.Header{"X-Aws-Ec2-Metadata-Token": {string(token)}}
	const path = "/latest/meta-data/iam/security-credentials/"
	roles, err := c.ask(ctx, http.MethodGet, base+path, header, nil)
	role, _, _ := strings.Cut(strings.TrimSpace(string(roles)), "\n")
	if err == nil && role == "" {
		err = errors.New("the machine has no role")
	}
	if err != nil {
		return k, err
	}
	b, err := c.ask(ctx, http.MethodGet, base+path+url.PathEscape(role), header, nil)
	if err != nil {
		return k, err
	}
	return keysOf(json.Unmarshal(b, &k), k)
}

// keysOf checks what a service gave.
func keysOf(err error, k keys) (keys, error) {
	if err != nil || k.AccessKeyID == "" || k.SecretAccessKey == "" {
		return keys{}, errors.New("its answer has no keys")
	}
	return k, nil
}

// container asks the service of a container. By http it must be on this machine or of ECS or EKS.
func (c *chain) container(ctx context.Context, at string) (k keys, err error) {
	fault := func(err error) (keys, error) {
		return keys{}, fmt.Errorf("%w (the container's service of credentials: %w)", object.ErrNoKeys, err)
	}
	u, err := url.Parse(at)
	if err != nil || u.Host == "" {
		return fault(errors.New("AWS_CONTAINER_CREDENTIALS_FULL_URI is no URL"))
	}
	ip := net.ParseIP(u.Hostname())
	own := u.Hostname() == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsLinkLocalUnicast() ||
		ip.Equal(net.ParseIP("fd00:ec2::23")))
	if u.Scheme != "https" && !(u.Scheme == "http" && own) {
		return fault(errors.New("AWS_CONTAINER_CREDENTIALS_FULL_URI: give https, or an address of this machine"))
	}
	header, env := http.Header{}, c.settings.env
	token := variable(env, "AWS_CONTAINER_AUTHORIZATION_TOKEN")
	if file := variable(env, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); file != "" {
		b, err := readBounded(file)
		if err != nil {
			return fault(err)
		}
		token = strings.TrimSpace(string(b))
	}
	if token != "" {
		header.Set("Authorization", token)
	}
	b, err := c.ask(ctx, http.MethodGet, at, header, nil)
	if err == nil {
		k, err = keysOf(json.Unmarshal(b, &k), k)
	}
	if err != nil {
		return fault(err)
	}
	return k, nil
}

// webIdentity asks STS for the credentials of a role, with the token of a file.
func (c *chain) webIdentity(ctx context.Context, file, role string) (keys, error) {
	fault := func(err error) (keys, error) {
		return keys{}, fmt.Errorf("%w (STS, for the role in AWS_ROLE_ARN and the token in %s: %w)", object.ErrNoKeys,
			file, err)
	}
	token, err := readBounded(file)
	if err != nil {
		return fault(err)
	}
	if role == "" {
		return fault(errors.New("no role is set"))
	}
	env := c.settings.env
	at := variable(env, "AWS_ENDPOINT_URL_STS")
	if at == "" {
		at = "https://sts." + c.settings.region + ".amazonaws.com"
		if strings.HasPrefix(c.settings.region, "cn-") {
			at += ".cn"
		}
	}
	session := variable(env, "AWS_ROLE_SESSION_NAME")
	if session == "" {
		session = "orbweaver"
	}
	c.secrets.keep(strings.TrimSpace(string(token)))
	b, err := c.ask(ctx, http.MethodPost, at, http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
		url.Values{"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {role},
			"RoleSessionName": {session}, "WebIdentityToken": {strings.TrimSpace(string(token))}})
	if err != nil {
		return fault(err)
	}
	var r struct {
		Keys keys `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
	}
	k, err := keysOf(xml.Unmarshal(b, &r), r.Keys)
	if err != nil || r.Keys.SessionToken == "" {
		return fault(errors.New("its answer has no keys"))
	}
	k.SessionToken = r.Keys.SessionToken
	return k, nil
}
