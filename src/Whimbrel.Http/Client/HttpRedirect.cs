using System.Text;

namespace Whimbrel.Http;

/// <summary>Next request after a redirect response.</summary>
internal static class HttpRedirect
{
    /// <summary>Returns the next request; null if the response is to be returned.</summary>
    internal static HttpClientRequest? Next(HttpClientRequest request, HttpClientResponse response)
    {
        if (response.Status is not (301 or 302 or 303 or 307 or 308)
            || !response.Head.TryGet(HttpField.Location, out ReadOnlySpan<byte> location))
            return null;
        if (!Uri.TryCreate(Encoding.UTF8.GetString(location), UriKind.RelativeOrAbsolute, out Uri? to)) return null;
        if (!to.IsAbsoluteUri || !to.OriginalString.Contains(':', StringComparison.Ordinal) || to.IsFile)
        {
            // "/x" is a file to .NET on some systems, and a path here.
            if (!Uri.TryCreate(request.Uri, to.OriginalString, out to)) return null;
        }

        if (to.Scheme != Uri.UriSchemeHttp && to.Scheme != Uri.UriSchemeHttps) return null;
        if (request.Uri.Scheme == Uri.UriSchemeHttps && to.Scheme != Uri.UriSchemeHttps) return null;
        string method = (response.Status, request.Method) switch
        {
            (301 or 302, "POST") => "GET",
            (303, not "HEAD") => "GET",
            _ => request.Method,
        };
        bool keepsBody = method == request.Method;
        if (keepsBody && request.Write is not null && !request.CanWriteAgain) return null; // cannot be written again

        if (request.Uri.Fragment.Length > 0 && to.Fragment.Length == 0)
            to = new UriBuilder(to) { Fragment = request.Uri.Fragment }.Uri;
        bool isOtherOrigin = Uri.Compare(request.Uri, to, UriComponents.SchemeAndServer | UriComponents.StrongPort,
            UriFormat.UriEscaped, StringComparison.OrdinalIgnoreCase) != 0;
        try
        {
            return Make(request, method, to, keepsBody, isOtherOrigin);
        }
        catch (ArgumentException)
        {
            return null; // the location is not a valid request URL
        }
    }

    private static HttpClientRequest Make(HttpClientRequest request, string method, Uri to, bool keepsBody,
        bool isOtherOrigin)
    {
        HttpClientRequest next =
            new(method, to) { CloseAfter = request.CloseAfter, ExpectContinue = request.ExpectContinue && keepsBody };
        foreach ((string name, string value) in request.Fields)
        {
            if (isOtherOrigin && IsCredential(name)) continue;
            if (!keepsBody && name.StartsWith("Content-", StringComparison.OrdinalIgnoreCase)) continue;
            next.Add(name, value);
        }

        if (!keepsBody) return next;
        if (request.Write is { } write) next.SetBody(write, request.ContentType, request.BodyLength);
        else if (request.BodyLength > 0) next.SetBody(request.Body, request.ContentType);
        next.CanWriteAgain = request.CanWriteAgain;
        return next;
    }

    private static bool IsCredential(string name) =>
        name.Equals("Authorization", StringComparison.OrdinalIgnoreCase)
        || name.Equals("Cookie", StringComparison.OrdinalIgnoreCase)
        || name.Equals("Proxy-Authorization", StringComparison.OrdinalIgnoreCase);
}
