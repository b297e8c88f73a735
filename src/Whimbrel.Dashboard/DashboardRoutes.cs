using Whimbrel.Http;

namespace Whimbrel.Dashboard;

/// <summary>Adds the dashboard to an HTTP server.</summary>
public static class DashboardRoutes
{
    /// <summary>
    /// Adds a page that shows all servers, connections, groups, loops and diagnostic events of the server's engine.
    /// Without options it answers clients of the own machine only (by <c>localhost</c>, <c>127.0.0.1</c> or
    /// <c>[::1]</c>), and changes nothing. Without a viewer nothing is sampled.
    /// </summary>
    /// <param name="routes">A server, or a group of its routes.</param>
    /// <param name="path">Path of the page, without parameters. Default <c>/whimbrel</c>.</param>
    /// <param name="options">Login, actions and limits; null for the defaults.</param>
    /// <exception cref="ArgumentException">The path has parameters or is not a path, or the options contradict each
    /// other: the message has the remedy.</exception>
    /// <exception cref="InvalidOperationException">The server has accepted a connection already, or the path is
    /// taken.</exception>
    public static void AddDashboard(this IHttpRoutes routes, string path = "/whimbrel",
        DashboardOptions? options = null)
    {
        ArgumentNullException.ThrowIfNull(routes);
        ArgumentNullException.ThrowIfNull(path);
        if (path.Contains('{', StringComparison.Ordinal))
            throw new ArgumentException($"The path of a dashboard has no parameters, such as /whimbrel: {path}",
                nameof(path));
        options ??= new DashboardOptions();
        options.Check();
        new DashboardSite(options).AddTo(routes, path);
    }
}
