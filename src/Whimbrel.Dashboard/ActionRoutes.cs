using System.Globalization;
using Whimbrel.Http;

namespace Whimbrel.Dashboard;

/// <summary>
/// Actions: <c>POST disconnect/ID</c>, <c>abort/ID</c>, <c>drain/SERVER</c>, <c>reload/SERVER</c>. Ids of connections
/// are hexadecimal, as on the page and in all messages. Each action that is allowed is reported as a diagnostic event
/// of its server, before and, if it takes time, after it.
/// </summary>
internal sealed class ActionRoutes(DashboardOptions options, DashboardAccess access)
{
    internal void AddTo(HttpRouteGroup inside)
    {
        inside.Post("/disconnect/{id}", (request, response) => End(request, response, isAbort: false));
        inside.Post("/abort/{id}", (request, response) => End(request, response, isAbort: true));
        inside.Post("/drain/{id}", Drain);
        inside.Post("/reload/{id}", ReloadAsync);
    }

    private void End(HttpRequest request, HttpResponse response, bool isAbort)
    {
        if (!IsAllowed(request, response, DashboardActions.Disconnect)) return;
        if (!TryId(request, NumberStyles.AllowHexSpecifier, out long id))
        {
            response.Fail(400, "The id of a connection is hexadecimal, as on the page: disconnect/2a");
            return;
        }

        if (GroupQuestion.FindSession(EnginesOf(request), id) is not { } session)
        {
            response.Fail(404, "There is no such connection: it has ended");
            return;
        }

        // Reported first: the session's own callbacks may report more.
        Report(session.Server, request, $"{(isAbort ? "reset" : "closed")} {session.DisplayName} "
            + $"(session {session.Id:x}, peer {StatusSnapshot.TextOf(session.RemoteEndPoint)})");
        if (isAbort) session.Abort();
        else session.Close();
        response.Empty(202);
    }

    private void Drain(HttpRequest request, HttpResponse response)
    {
        if (!IsAllowed(request, response, DashboardActions.Drain)) return;
        if (FindServer(request, response) is not { } server) return;

        string client = DashboardAccess.PeerOf(request), address = AddressOf(server);
        Report(server, request, $"began to drain the server at {address} with {server.SessionCount} sessions");
        response.Empty(202);
        _ = DrainAsync(server, client, address);
    }

    private static async Task DrainAsync(Server server, string client, string address)
    {
        string result;
        try
        {
            result = (await server.StopAsync().ConfigureAwait(false)).ToString();
        }
        catch (Exception e)
        {
            // For example the engine has been disposed in the meantime.
            result = e.Message;
        }

        server.Report(new DiagnosticEvent(DiagnosticEventKind.Dashboard,
            $"Dashboard: the server at {address}, which {client} began to drain, has stopped: {result}.",
            DashboardSite.SymptomPage));
    }

    private async Task ReloadAsync(HttpRequest request, HttpResponse response)
    {
        if (!IsAllowed(request, response, DashboardActions.ReloadCertificate)) return;
        if (FindServer(request, response) is not { } server) return;

        TlsCertificate[] certificates = CertificatesOf(server);
        if (certificates.Length == 0)
        {
            response.Fail(409, "This server has no certificate files of TlsOptions.Certificate or Names");
            return;
        }

        try
        {
            await Task.Run(() => Array.ForEach(certificates, static certificate => certificate.Reload()))
                .ConfigureAwait(false);
        }
        catch (Exception e)
        {
            Report(server, request, $"could not load the certificate of {AddressOf(server)} again: {e.Message}");
            response.Fail(409, $"The certificate in use stays: {e.Message}");
            return;
        }

        Report(server, request, $"loaded the certificate of {AddressOf(server)} again: "
            + string.Join(", ", certificates.Select(static c =>
                $"{c.Source}, until {c.Current.NotAfter.ToUniversalTime():u}")));
        response.Text("loaded");
    }

    // ------------------------------------------------------------------ parts

    private bool IsAllowed(HttpRequest request, HttpResponse response, DashboardActions action)
    {
        if ((options.Actions & action) != 0) return true;
        access.Refuse(request, response, action.ToString(), $"The action {action} is off. Enable it with "
            + $"DashboardOptions.Actions = DashboardActions.{action}");
        return false;
    }

    private IEnumerable<Engine> EnginesOf(HttpRequest request) =>
        [request.Session.Loop.Engine, .. options.Engines.Where(e => !ReferenceEquals(e, request.Session.Loop.Engine))];

    private static bool TryId(HttpRequest request, NumberStyles form, out long id) =>
        long.TryParse(request.Route["id"], form, CultureInfo.InvariantCulture, out id);

    /// <summary>Returns the server of the request, or null after an answer with the reason.</summary>
    private Server? FindServer(HttpRequest request, HttpResponse response)
    {
        if (!TryId(request, NumberStyles.None, out long id))
            response.Fail(400, "The number of a server is the one in its link in the overview: drain/1");
        else if (GroupQuestion.FindServer(EnginesOf(request), id) is { } server)
            return server;
        else
            response.Fail(404, "There is no such server: it has stopped");
        return null;
    }

    private static TlsCertificate[] CertificatesOf(Server server) => server.Options.Tls is not { } tls
        ? []
        : [.. ((TlsOptions[])[tls, .. tls.Names.Values]).Select(static t => t.Certificate).OfType<TlsCertificate>()
            .Distinct()];

    private static string AddressOf(Server server) => StatusSnapshot.TextOf(server.EndPoint);

    /// <summary>Reports to a server; null to report to the server of the dashboard.</summary>
    private static void Report(Server? server, HttpRequest request, string what) =>
        (server ?? request.Session.Server!).Report(new DiagnosticEvent(DiagnosticEventKind.Dashboard,
            $"Dashboard: {DashboardAccess.PeerOf(request)} {what}.", DashboardSite.SymptomPage));
}
