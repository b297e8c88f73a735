using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;
using Microsoft.Extensions.Primitives;
using Whimbrel.Http;

namespace Whimbrel.Hosting;

/// <summary>
/// One server of the host: reads its options from its section, creates it, and applies changes of the section while it
/// runs. Created by the container when the server is resolved or the host starts; started and stopped by
/// <see cref="ServerHosting"/>.
/// </summary>
internal sealed class HostedServer : IDisposable
{
    private readonly ServerRegistration _registration;
    private readonly IConfigurationSection _section;
    private readonly Lock _gate = new(); // guards the fields below, because reloads run on any thread
    private readonly NoticeLog _notices;
    private readonly HostedCluster? _cluster; // of a server that is a node
    private ServerOptions? _options;
    private HttpOptions? _http;
    private Server? _server;
    private Dictionary<string, string?> _texts = [];
    private IDisposable? _watch;
    private volatile ServerOptions? _fresh; // of the last reload

    internal HostedServer(IServiceProvider services, ServerRegistration registration)
    {
        Services = services;
        _registration = registration;
        _section = services.GetRequiredService<IConfiguration>().GetSection(registration.Name);
        Logger = HostLogging.Make(services, $"Whimbrel.Server.{registration.Name}");
        _notices = new NoticeLog(Logger, TimeProvider.System);
        Scopes = new SessionScopes(registration.Name, Logger);
        _cluster = services.GetKeyedService<HostedCluster>(registration.Name);
    }

    internal string Name => _registration.Name;

    internal IServiceProvider Services { get; }

    internal ILogger Logger { get; }

    internal SessionScopes Scopes { get; }

    /// <summary>True from the moment at which the host stops: the server still accepts for a while.</summary>
    internal volatile bool IsLeaving;

    /// <summary>Options of an HTTP server, valid when the server is created; null for others.</summary>
    internal HttpOptions? Http => _http;

    /// <summary>
    /// The server, created at first use. Throws <see cref="InvalidOperationException"/> with all mistakes of the
    /// configuration.
    /// </summary>
    internal Server Server
    {
        get
        {
            lock (_gate)
            {
                if (_server is not null) return _server;
                List<string> mistakes = [];
                FindMistakes(mistakes);
                if (mistakes.Count > 0) throw new InvalidOperationException(string.Join("; ", mistakes));
                return _server = _registration.Make(this, _options!);
            }
        }
    }

    /// <summary>Reads the section again, as long as the server does not exist.</summary>
    /// <param name="mistakes">List to which mistakes are added.</param>
    /// <param name="hasEngine">
    /// False if the engine's options have mistakes: the rest is then checked without an engine.
    /// </param>
    internal void FindMistakes(List<string> mistakes, bool hasEngine = true)
    {
        lock (_gate)
        {
            if (_server is not null) return;
            _texts = Texts();
            _options = Read(mistakes, out _http, hasEngine);
            foreach (string found in _registration.FindMistakes?.Invoke(Services) ?? [])
                mistakes.Add($"{Name}: {found}");
        }
    }

    /// <summary>Starts the server. A node joins before, so that the first session can use it.</summary>
    internal async Task StartAsync(CancellationToken cancellationToken)
    {
        if (_cluster is not null) await _cluster.JoinAsync(Server, cancellationToken).ConfigureAwait(false);
        try
        {
            await Server.StartAsync(cancellationToken).ConfigureAwait(false);
        }
        catch
        {
            await LeaveAsync(cancellationToken).ConfigureAwait(false);
            throw;
        }
    }

    /// <summary>Leaves the cluster, after the server has stopped. Throws nothing.</summary>
    internal Task LeaveAsync(CancellationToken cancellationToken) =>
        _cluster?.LeaveAsync(cancellationToken) ?? Task.CompletedTask;

    /// <summary>Starts watching for changes of the section.</summary>
    internal void Watch() => _watch ??= ChangeToken.OnChange(_section.GetReloadToken, Reload);

    public void Dispose() => _watch?.Dispose();

    /// <summary>
    /// Sets the time limits of the last reload on a new session. The session may override them later.
    /// </summary>
    internal void Limit(Session session)
    {
        if (_fresh is not { } fresh || _options is not { } first) return;
        if (fresh.Timeouts.Idle != first.Timeouts.Idle) session.IdleTimeout = fresh.Timeouts.Idle;
        if (fresh.Timeouts.Receive != first.Timeouts.Receive) session.ReceiveTimeout = fresh.Timeouts.Receive;
        if (fresh.Timeouts.Send != first.Timeouts.Send) session.SendTimeout = fresh.Timeouts.Send;
    }

    private ServerOptions Read(List<string> mistakes, out HttpOptions? http, bool hasEngine = true)
    {
        SectionReader section = new(_section, mistakes);
        http =
            _registration.HttpOptions is { } given ? HttpSection.Read(section.Section("Http"), given(Services)) : null;
        _cluster?.Read(section.Section(ClusterSection.Name));
        ServerOptions code = _registration.Options?.Invoke(Services) ?? new ServerOptions();
        string folder = Services.GetService<IHostEnvironment>()?.ContentRootPath ?? Directory.GetCurrentDirectory();
        ServerOptions options = ServerSection.Read(section, code,
            hasEngine ? Services.GetRequiredService<Engine>() : null, Services, folder, _notices.Write,
            isHttp: http is not null);
        foreach (string found in options.FindMistakes()) section.AddFound(found);
        return options;
    }

    private Dictionary<string, string?> Texts() => _section.AsEnumerable(makePathsRelative: true)
        .Where(static t => t.Value is not null).ToDictionary(StringComparer.OrdinalIgnoreCase);

    /// <summary>
    /// Called by the configuration, also for changes elsewhere, or twice for one change. An exception would be lost or
    /// would crash the process, so mistakes are logged and nothing is thrown.
    /// </summary>
    private void Reload()
    {
        try
        {
            lock (_gate)
            {
                Dictionary<string, string?> texts = Texts();
                string[] changed = [.. texts.Keys.Union(_texts.Keys, StringComparer.OrdinalIgnoreCase)
                    .Where(k => texts.GetValueOrDefault(k) != _texts.GetValueOrDefault(k))
                    .Order(StringComparer.Ordinal)];
                if (changed.Length == 0 || _server is not { } server) return;
                _texts = texts;
                List<string> mistakes = [];
                ServerOptions fresh = Read(mistakes, out _);
                if (mistakes.Count > 0)
                {
                    Events.NotUsed(Logger, Name, string.Join("; ", mistakes));
                    return;
                }

                server.MaxConnections = fresh.Limits.Connections;
                _fresh = fresh;
                foreach (string key in changed)
                {
                    if (_registration.IsLive(key))
                        Events.Applied(Logger, $"{_section.Path}:{key}", texts.GetValueOrDefault(key) ?? "its default");
                    else Events.AppliesLater(Logger, $"{_section.Path}:{key}");
                }
            }
        }
        catch (Exception e)
        {
            Events.NotUsed(Logger, Name, e.Message);
        }
    }
}
