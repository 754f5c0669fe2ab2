package blobstore

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	azb "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"gocloud.dev/blob"
	"gocloud.dev/blob/azureblob"
)

// openAzure opens azblob://CONTAINER/PREFIX. The account is
// AZURE_STORAGE_ACCOUNT or the parameter storage_account; keys come from
// AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING,
// else from the default Azure credential. Other parameters: domain, protocol,
// cdn, localemu, as gocloud.dev/blob/azureblob has them.
func openAzure(ctx context.Context, u cloudURL, transport http.RoundTripper) (*bucket, error) {
	if err := u.noMore("storage_account", "domain", "protocol", "cdn", "localemu"); err != nil {
		return nil, err
	}
	if u.params.Get("storage_account") == "" && firstEnv("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGEBLOB_CONNECTIONSTRING") == "" {
		return nil, &fault{kind: ErrBadURL, what: "no account for " + u.root() + ": add ?storage_account=NAME or set AZURE_STORAGE_ACCOUNT"}
	}
	opener := &azureblob.URLOpener{
		ServiceURLOptions: *azureblob.NewDefaultServiceURLOptions(),
		MakeClient: func(service azureblob.ServiceURL, name azureblob.ContainerName) (*container.Client, error) {
			account := u.params.Get("storage_account")
			if account == "" {
				account = os.Getenv("AZURE_STORAGE_ACCOUNT")
			}
			return azureClient(string(service), account, string(name), transport)
		},
	}
	b, err := opener.OpenBucketURL(ctx, &url.URL{Scheme: u.scheme, Host: u.bucket, RawQuery: u.params.Encode()})
	if err != nil {
		return nil, cloudSetup(ctx, u, err)
	}
	var client *container.Client
	if !b.As(&client) {
		return nil, errors.New("blobstore: gocloud.dev/blob/azureblob has another client than expected")
	}
	return newBucket(u, b, &azureProvider{client: client}, idle(transport)), nil
}

func azureClient(service, account, name string, transport http.RoundTripper) (*container.Client, error) {
	at, err := url.JoinPath(service, name)
	if err != nil {
		return nil, errors.New("its address is malformed") // err shows it, with the SAS token
	}
	core := azcore.ClientOptions{
		Transport: &http.Client{Transport: transport},
		// Retrying repeats, and knows what may be repeated.
		Retry: policy.RetryOptions{MaxRetries: -1},
	}
	o := &container.ClientOptions{ClientOptions: core}
	if key := os.Getenv("AZURE_STORAGE_KEY"); account != "" && key != "" {
		cred, err := azblob.NewSharedKeyCredential(account, key)
		if err != nil {
			return nil, errors.New("AZURE_STORAGE_KEY is not a key (base64)")
		}
		return container.NewClientWithSharedKeyCredential(at, cred, o)
	}
	if os.Getenv("AZURE_STORAGE_SAS_TOKEN") != "" { // it is in the address
		return container.NewClientWithNoCredential(at, o)
	}
	if s := firstEnv("AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGEBLOB_CONNECTIONSTRING"); s != "" {
		c, err := container.NewClientFromConnectionString(s, name, o)
		if err != nil {
			return nil, errors.New("AZURE_STORAGE_CONNECTION_STRING is malformed")
		}
		return c, nil
	}
	cred, err := azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: azcore.ClientOptions{Transport: core.Transport}})
	if err != nil {
		return nil, errors.New("no keys: set AZURE_STORAGE_KEY, or log in with the Azure command line")
	}
	return container.NewClient(at, cred, o)
}

// azureProvider is Azure Blob Storage. Its version is the ETag, which is new
// with each change, also of metadata.
type azureProvider struct{ client *container.Client }

var _ provider = (*azureProvider)(nil)

func (p *azureProvider) writing(ctx context.Context, w *upload) (context.Context, func(as func(any) bool) error) {
	var resp *http.Response
	w.after = func() (Version, error) {
		if resp == nil {
			return "", nil
		}
		return Version(resp.Header.Get("ETag")), nil
	}
	if w.size < partSize {
		// One request, whose reply tells the ETag that gocloud drops.
		ctx = policy.WithCaptureResponse(ctx, &resp)
	} else {
		// Blocks may be sent again. So may the list that completes them: that
		// the second is refused because of the first is found on reading back.
		ctx = policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: 4})
	}
	return ctx, func(as func(any) bool) error {
		var o *azblob.UploadStreamOptions
		if !as(&o) {
			return errors.New("blobstore: gocloud.dev/blob/azureblob uploads in another way than expected")
		}
		if w.have != "" {
			etag := azcore.ETag(w.have)
			o.AccessConditions = &azblob.AccessConditions{ModifiedAccessConditions: &azb.ModifiedAccessConditions{IfMatch: &etag}}
		}
		return nil
	}
}

func (p *azureProvider) reading(v Version) func(as func(any) bool) error {
	return func(as func(any) bool) error {
		var o *azblob.DownloadStreamOptions
		if as(&o) {
			etag := azcore.ETag(v)
			o.AccessConditions = &azblob.AccessConditions{ModifiedAccessConditions: &azb.ModifiedAccessConditions{IfMatch: &etag}}
		}
		return nil
	}
}

func (p *azureProvider) read(r *blob.Reader) Info {
	var out azb.DownloadStreamResponse
	if !r.As(&out) {
		return Info{}
	}
	return Info{Version: etagOf(out.ETag), SHA256: azureSHA(out.Metadata)}
}

func (p *azureProvider) attributes(a *blob.Attributes) Info {
	var out azb.GetPropertiesResponse
	if !a.As(&out) {
		return Info{}
	}
	return Info{Version: etagOf(out.ETag), SHA256: azureSHA(out.Metadata)}
}

// listed leaves the version out: Azure lists ETags without their quotes.
func (p *azureProvider) listed(o *blob.ListObject) Info {
	var out container.BlobItem
	if !o.As(&out) {
		return Info{}
	}
	return Info{SHA256: azureSHA(out.Metadata)}
}

func (p *azureProvider) listing() func(as func(any) bool) error {
	return func(as func(any) bool) error {
		var o *container.ListBlobsHierarchyOptions
		if as(&o) {
			o.Include.Metadata = true
		}
		return nil
	}
}

// renew writes the metadata again; the ETag is another afterwards.
func (p *azureProvider) renew(ctx context.Context, key string, info Info) error {
	stored, err := storedKey(key, azureSpecial)
	if err != nil {
		return err
	}
	meta := map[string]*string{}
	if info.SHA256 != "" {
		meta[metaSHA] = &info.SHA256
	}
	etag := azcore.ETag(info.Version)
	_, err = p.client.NewBlobClient(stored).SetMetadata(ctx, meta, &azb.SetMetadataOptions{
		AccessConditions: &azb.AccessConditions{ModifiedAccessConditions: &azb.ModifiedAccessConditions{IfMatch: &etag}},
	})
	return err
}

func (p *azureProvider) possible(v Version) bool { return strings.HasPrefix(string(v), `"`) }

func (p *azureProvider) find(err error) (reply, bool) {
	var api *azcore.ResponseError
	if errors.As(err, &api) {
		return reply{status: api.StatusCode, code: api.ErrorCode}, true
	}
	var failed *azidentity.AuthenticationFailedError
	var missing interface{ NonRetriable() } // no credential was found
	if errors.As(err, &failed) || errors.As(err, &missing) {
		return reply{status: http.StatusUnauthorized, code: "NoCredential", message: "no way to log in was found; set AZURE_STORAGE_KEY, or log in with the Azure command line"}, true
	}
	return reply{}, false
}

func etagOf(e *azcore.ETag) Version {
	if e == nil {
		return ""
	}
	return Version(*e)
}

// azureSHA finds the hash in metadata whose names come in any case.
func azureSHA(meta map[string]*string) string {
	for name, value := range meta {
		if strings.EqualFold(name, metaSHA) && value != nil {
			return *value
		}
	}
	return ""
}
