using System.Text;
using Whimbrel.Http;

namespace Whimbrel.Acme;

/// <summary>Answers challenges of HTTP-01 (RFC 8555, 8.3) by a route.</summary>
public static class AcmeRoutes
{
    private const string Pattern = "/.well-known/acme-challenge/{token}";

    /// <summary>
    /// Adds the route for challenges to an HTTP server, which must be reachable at port 80 of each name. Any node that
    /// shares the store may answer.
    /// </summary>
    /// <param name="routes">A server or a group without a prefix.</param>
    /// <param name="certificate">The certificate.</param>
    public static void AddAcmeChallenges(this IHttpRoutes routes, AcmeCertificate certificate)
    {
        ArgumentNullException.ThrowIfNull(routes);
        ArgumentNullException.ThrowIfNull(certificate);
        routes.Get(Pattern, async (request, response, stop) =>
        {
            string token = Encoding.ASCII.GetString(request.Route.GetBytes("token"));
            string? answer = await certificate.AnswerAsync(token, stop);
            if (answer is null) response.Fail(404, "There is no such challenge");
            else response.Bytes(Encoding.ASCII.GetBytes(answer), "application/octet-stream"u8);
        });
    }

    /// <summary>Creates the server of <see cref="AcmeOptions.HttpAddress"/>.</summary>
    internal static HttpServer Responder(string address, AcmeCertificate certificate,
        Action<DiagnosticEvent>? onDiagnosticEvent)
    {
        HttpServer server = new(new ServerOptions
        {
            Address = HttpServer.AddressOf(address),
            OnDiagnosticEvent = onDiagnosticEvent,
        });
        server.AddAcmeChallenges(certificate);
        server.Get("/{*path}", (request, response) => Redirect(request, response, certificate));
        return server;
    }

    /// <summary>Redirects to names of the certificate only.</summary>
    private static void Redirect(HttpRequest request, HttpResponse response, AcmeCertificate certificate)
    {
        string host = Encoding.ASCII.GetString(request.Authority).Split(':')[0];
        if (certificate.IsFor(host))
            response.Redirect($"https://{host}{Encoding.ASCII.GetString(request.Path)}{QueryOf(request)}", 308);
        else
            response.Fail(404, "This host is not served here");
    }

    private static string QueryOf(HttpRequest request) => request.Query.IsEmpty ? "" : $"?{request.Query}";
}
