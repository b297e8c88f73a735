using Whimbrel.Http.Files;

namespace Whimbrel.Http;

// Routes that serve the files of a folder.
public static partial class HttpRoutes
{
    /// <summary>
    /// Serves the files of a folder to GET and HEAD, and no file outside of it. Routes with a longer pattern have
    /// priority. Small files are kept in memory and large ones open, within limits. Changes on disk take effect after
    /// <see cref="HttpFileOptions.Freshness"/>.
    /// </summary>
    /// <param name="routes">A server or a group.</param>
    /// <param name="prefix">Path prefix of the folder in requests: <c>/</c>, or <c>/static</c>.</param>
    /// <param name="folder">Path of the folder, relative to the current directory of the process. The folder may be
    /// replaced while it is served.</param>
    /// <param name="options">Rules and cache limits; null for the defaults.</param>
    /// <exception cref="ArgumentException">The prefix is malformed or has a handler already, or an option is out of
    /// range.</exception>
    /// <exception cref="DirectoryNotFoundException">The folder does not exist, and
    /// <see cref="HttpFileOptions.MayBeMissing"/> is not set.</exception>
    /// <exception cref="InvalidOperationException">The server has accepted a connection.</exception>
    public static void Files(this IHttpRoutes routes, string prefix, string folder, HttpFileOptions? options = null)
    {
        ArgumentNullException.ThrowIfNull(prefix);
        ArgumentException.ThrowIfNullOrEmpty(folder);
        RouteScope scope = ScopeOf(routes);
        if (!prefix.StartsWith('/') || prefix.Contains('{', StringComparison.Ordinal))
            throw new ArgumentException($"A prefix begins with a slash and has no names: {prefix}", nameof(prefix));
        options ??= new HttpFileOptions();
        FileSite site = new(folder, options, scope.Table.Compression);
        if (!options.MayBeMissing && !Directory.Exists(folder))
            throw new DirectoryNotFoundException(
                $"There is no folder {Path.GetFullPath(folder)}, so every file of {prefix} would be a 404. A relative "
                + $"path begins at the current directory ({Environment.CurrentDirectory}); AppContext.BaseDirectory is "
                + $"where the program lies. Set HttpFileOptions.MayBeMissing for a folder that is made later.");
        string path = scope.PathOf(prefix).TrimEnd('/');
        scope.Table.Add((int)HttpVerb.Get, scope, path + "/{*file}", default, site);
        if (path.Length > 0) scope.Table.Add((int)HttpVerb.Get, scope, path, RouteHandler.Of(FileSite.Redirect));
        scope.Table.Sites.Add(site);
    }
}
