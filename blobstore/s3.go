package blobstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	gcaws "gocloud.dev/aws"
	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"
)

// credentialTime bounds the search for keys, which may ask a metadata service
// that is not there.
const credentialTime = 15 * time.Second

// openS3 opens s3://BUCKET/PREFIX. Parameters are those of gocloud.dev/aws and
// gocloud.dev/blob/s3blob; with an endpoint of its own (a compatible store) the
// defaults are what such stores understand:
//
//	endpoint=https://HOST[:PORT]  or AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL
//	region=NAME                   default: AWS_REGION, the profile's, us-east-1 with an endpoint
//	use_path_style=BOOL           default: true with an endpoint
//	request_checksum_calculation, response_checksum_validation
//	                              default: when_required with an endpoint
//	profile=NAME anonymous=BOOL role=ARN ssetype= kmskeyid= accelerate= dualstack= fips=
//
// Keys come from the environment, the shared files of AWS, or the machine's
// role.
func openS3(ctx context.Context, u cloudURL, transport http.RoundTripper) (*bucket, error) {
	endpoint := u.take("endpoint")
	if endpoint == "" {
		endpoint = firstEnv("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
	}
	if endpoint != "" && !strings.HasPrefix(endpoint, "http://") && !strings.HasPrefix(endpoint, "https://") {
		return nil, fmt.Errorf("%w: the endpoint of %s starts with neither https:// nor http://", ErrBadURL, u.root())
	}
	sse, kms := u.take("ssetype"), u.take("kmskeyid")
	pathStyle, err := u.takeBool("use_path_style", endpoint != "")
	if err != nil {
		return nil, err
	}
	accelerate, err := u.takeBool("accelerate", false)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"anonymous", "dualstack", "fips"} {
		yes, err := u.takeBool(name, false)
		if err != nil {
			return nil, err
		}
		if yes {
			u.params.Set(name, "true")
		}
	}
	if endpoint != "" && u.params.Get("request_checksum_calculation") == "" && os.Getenv("AWS_REQUEST_CHECKSUM_CALCULATION") == "" {
		// Over https the default sends aws-chunked bodies with a trailer, which
		// many compatible servers refuse, and some store as they come.
		u.params.Set("request_checksum_calculation", "when_required")
	}
	if u.params.Get("response_checksum_validation") == "" && os.Getenv("AWS_RESPONSE_CHECKSUM_VALIDATION") == "" {
		// Ranges carry none, and our own hashes cover whole objects.
		u.params.Set("response_checksum_validation", "when_required")
	}
	if err := u.noMore("region", "profile", "dualstack", "fips", "anonymous", "role", "role_session_name", "role_external_id",
		"role_duration", "web_identity_token_file", "request_checksum_calculation", "response_checksum_validation"); err != nil {
		return nil, err
	}
	cfg, err := awsConfig(ctx, u.params)
	if err != nil {
		return nil, cloudSetup(ctx, u, err)
	}
	if cfg.Region == "" && endpoint == "" {
		return nil, &fault{kind: ErrBadURL, what: "no region for " + u.root() + ": add ?region=NAME or set AWS_REGION"}
	}
	if cfg.Region == "" {
		cfg.Region = "us-east-1" // what servers without regions expect to be signed
	}
	cfg.HTTPClient = &http.Client{Transport: transport}
	if err := haveKeys(ctx, u, cfg.Credentials); err != nil {
		return nil, err
	}
	encryption, err := serverSide(u, sse)
	if err != nil {
		return nil, err
	}
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.UsePathStyle, o.UseAccelerate = pathStyle, accelerate
		o.Retryer = aws.NopRetryer{} // Retrying repeats, and knows what may be repeated
		if endpoint != "" {
			o.BaseEndpoint = aws.String(endpoint)
		}
	})
	b, err := s3blob.OpenBucket(ctx, client, u.bucket, &s3blob.Options{
		EncryptionType: encryption, KMSEncryptionID: kms, RequestChecksumCalculation: cfg.RequestChecksumCalculation,
	})
	if err != nil {
		return nil, cloudSetup(ctx, u, err)
	}
	p := &s3Provider{client: client, bucket: u.bucket, checksums: cfg.RequestChecksumCalculation, encryption: encryption, kmsKey: kms}
	return newBucket(u, b, p, idle(transport)), nil
}

// awsConfig loads the set-up of AWS with the parameters of a URL. The SDK's own
// log would go to stderr: it is nobody's to read.
func awsConfig(ctx context.Context, q url.Values) (aws.Config, error) {
	if q.Get("role") != "" { // asks the token service: gocloud knows how
		cfg, err := gcaws.V2ConfigFromURLParams(ctx, q)
		cfg.Logger = logging.Nop{}
		return cfg, err
	}
	o := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})}
	for name := range q {
		value := q.Get(name)
		switch name {
		case "region":
			o = append(o, config.WithRegion(value))
		case "profile":
			o = append(o, config.WithSharedConfigProfile(value))
		case "anonymous":
			if value == "true" {
				o = append(o, config.WithCredentialsProvider(aws.AnonymousCredentials{}))
			}
		case "dualstack":
			if value == "true" {
				o = append(o, config.WithUseDualStackEndpoint(aws.DualStackEndpointStateEnabled))
			}
		case "fips":
			if value == "true" {
				o = append(o, config.WithUseFIPSEndpoint(aws.FIPSEndpointStateEnabled))
			}
		case "request_checksum_calculation":
			mode := aws.RequestChecksumCalculationWhenSupported
			if value == "when_required" {
				mode = aws.RequestChecksumCalculationWhenRequired
			}
			o = append(o, config.WithRequestChecksumCalculation(mode))
		case "response_checksum_validation":
			mode := aws.ResponseChecksumValidationWhenSupported
			if value == "when_required" {
				mode = aws.ResponseChecksumValidationWhenRequired
			}
			o = append(o, config.WithResponseChecksumValidation(mode))
		default:
			return aws.Config{}, fmt.Errorf("%s needs role", name)
		}
	}
	return config.LoadDefaultConfig(ctx, o...)
}

// serverSide is the encryption that a URL asks for.
func serverSide(u cloudURL, name string) (types.ServerSideEncryption, error) {
	if name == "" {
		return "", nil
	}
	for _, t := range types.ServerSideEncryption("").Values() {
		if strings.EqualFold(string(t), name) {
			return t, nil
		}
	}
	return "", fmt.Errorf("%w: parameter ssetype of %s names no encryption", ErrBadURL, u.root())
}

// firstEnv is the first of these variables that is set.
func firstEnv(names ...string) string {
	for _, n := range names {
		if v := os.Getenv(n); v != "" {
			return v
		}
	}
	return ""
}

// haveKeys looks for credentials now: the first request would say the same in
// many more words.
func haveKeys(ctx context.Context, u cloudURL, c aws.CredentialsProvider) error {
	if c == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, credentialTime)
	defer cancel()
	if _, err := c.Retrieve(ctx); err != nil && !aws.IsCredentialsProvider(c, aws.AnonymousCredentials{}) {
		return &fault{kind: ErrPermission, what: "no keys for " + u.root() + ": set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"}
	}
	return nil
}

// cloudSetup is an error of a library that was given the parameters of a URL.
func cloudSetup(ctx context.Context, u cloudURL, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %s: %s", ErrBadURL, u.root(), oneLine(withoutURL(err)))
}

// idle closes what a transport keeps open for the next request.
func idle(t http.RoundTripper) func() {
	return (&http.Client{Transport: t}).CloseIdleConnections
}

// s3Provider is S3 and what speaks it. Its version is the ETag: of an object
// in one part the MD5 of its bytes, so that A, B, A again looks like no change.
type s3Provider struct {
	client    *s3.Client
	bucket    string
	checksums aws.RequestChecksumCalculation

	encryption types.ServerSideEncryption // by the server; "": as the bucket has it
	kmsKey     string
}

var (
	_ provider    = (*s3Provider)(nil)
	_ wholePutter = (*s3Provider)(nil)
)

func (p *s3Provider) writing(ctx context.Context, w *upload) (context.Context, func(as func(any) bool) error) {
	c := &s3Upload{Client: p.client}
	w.after = func() (Version, error) { return c.version, c.refused }
	return ctx, func(as func(any) bool) error {
		var in *transfermanager.UploadObjectInput
		var tm *transfermanager.Client
		if !as(&in) || !as(&tm) {
			return errors.New("blobstore: gocloud.dev/blob/s3blob uploads in another way than expected")
		}
		if w.have != "" {
			// Sent with the one PutObject, or with CompleteMultipartUpload.
			in.IfMatch = aws.String(string(w.have))
		}
		*tm = *transfermanager.New(c, func(o *transfermanager.Options) {
			o.RequestChecksumCalculation = p.checksums
			o.PartSizeBytes = max(partSize, (w.size+maxParts-1)/maxParts)
			// At once, where it goes in parts: what is read to find that out is
			// read into memory that grows.
			o.MultipartUploadThreshold = min(manyParts, o.PartSizeBytes)
			o.Concurrency = parallelParts
			// Also when interrupted: parts of an upload that is neither
			// completed nor aborted are stored, and paid for.
			o.FailTimeout = abortTime
		})
		return nil
	}
}

// abortTime is how long the abortion of an upload may take.
const abortTime = 10 * time.Second

// s3Upload is the client of one upload. It keeps what gocloud.dev/blob drops:
// the new ETag, and the refusal of CompleteMultipartUpload, which the transfer
// manager would print and wrap in a text of its own.
type s3Upload struct {
	*s3.Client
	version Version
	refused error
}

func (c *s3Upload) PutObject(ctx context.Context, in *s3.PutObjectInput, o ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	out, err := c.Client.PutObject(ctx, in, o...)
	if err == nil {
		c.version = Version(aws.ToString(out.ETag))
	}
	return out, err
}

// UploadPart is repeated here: a part has no condition, and one that failed
// should not cost the whole upload.
func (c *s3Upload) UploadPart(ctx context.Context, in *s3.UploadPartInput, o ...func(*s3.Options)) (*s3.UploadPartOutput, error) {
	again := func(o *s3.Options) {
		o.Retryer = retry.NewStandard(func(so *retry.StandardOptions) { so.MaxAttempts = 5 })
	}
	return c.Client.UploadPart(ctx, in, append(o, again)...)
}

func (c *s3Upload) CompleteMultipartUpload(ctx context.Context, in *s3.CompleteMultipartUploadInput, o ...func(*s3.Options)) (*s3.CompleteMultipartUploadOutput, error) {
	out, err := c.Client.CompleteMultipartUpload(ctx, in, o...)
	if err == nil {
		return out, nil // its ETag is not always the one that reads tell: it is asked for
	}
	c.refused = err
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
	defer cancel()
	// Best effort: when it was completed after all there is nothing to abort.
	_, _ = c.Client.AbortMultipartUpload(clean, &s3.AbortMultipartUploadInput{Bucket: in.Bucket, Key: in.Key, UploadId: in.UploadId}, o...)
	return &s3.CompleteMultipartUploadOutput{}, nil
}

func (p *s3Provider) reading(v Version) func(as func(any) bool) error {
	return func(as func(any) bool) error {
		var in *s3.GetObjectInput
		if as(&in) {
			in.IfMatch = aws.String(string(v))
		}
		return nil
	}
}

func (p *s3Provider) read(r *blob.Reader) Info {
	var out s3.GetObjectOutput
	if !r.As(&out) {
		return Info{}
	}
	return Info{Version: Version(aws.ToString(out.ETag)), SHA256: out.Metadata[metaSHA]}
}

func (p *s3Provider) attributes(a *blob.Attributes) Info { return Info{Version: Version(a.ETag)} }

func (p *s3Provider) listed(o *blob.ListObject) Info {
	var out types.Object
	if !o.As(&out) {
		return Info{}
	}
	return Info{Version: Version(aws.ToString(out.ETag))}
}

func (p *s3Provider) listing() func(as func(any) bool) error { return nil }

// renew copies the object onto itself, if it is still the same. A copy is one
// request up to 5 GiB.
func (p *s3Provider) renew(ctx context.Context, key string, info Info) error {
	stored, err := storedKey(key, s3Special)
	if err != nil || info.Size > 5<<30 {
		return errAnotherWay
	}
	var meta map[string]string
	if info.SHA256 != "" {
		meta = map[string]string{metaSHA: info.SHA256}
	}
	_, err = p.client.CopyObject(ctx, &s3.CopyObjectInput{
		Bucket: aws.String(p.bucket), Key: aws.String(stored),
		CopySource:        aws.String(pathEscape(p.bucket + "/" + stored)),
		CopySourceIfMatch: aws.String(string(info.Version)),
		ContentType:       aws.String(contentType),
		Metadata:          meta,
		MetadataDirective: types.MetadataDirectiveReplace, // without a change S3 refuses
	})
	return err
}

func (p *s3Provider) possible(v Version) bool { return strings.HasPrefix(string(v), `"`) }

func (p *s3Provider) find(err error) (reply, bool) {
	var r reply
	var api smithy.APIError
	if errors.As(err, &api) {
		r.code, r.message = api.ErrorCode(), api.ErrorMessage()
	}
	var http *awshttp.ResponseError
	if errors.As(err, &http) {
		r.status = http.HTTPStatusCode()
	}
	return r, r.status != 0
}
