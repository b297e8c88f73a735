using Whimbrel.Http;

namespace Whimbrel.Dashboard;

/// <summary>
/// Options of <see cref="DashboardRoutes.AddDashboard"/>. Immutable data, checked by that call. The defaults show
/// everything to clients of the own machine and allow no action.
/// </summary>
public sealed class DashboardOptions
{
    /// <summary>Fewest characters of <see cref="Token"/>.</summary>
    internal const int LeastToken = 16;

    private const int MostViewers = 100;
    private static readonly TimeSpan s_shortest = TimeSpan.FromMilliseconds(100);
    private static readonly TimeSpan s_longest = TimeSpan.FromMinutes(1);

    /// <summary>
    /// Secret for the login, at least 16 characters. Programs send it as <c>Authorization: Bearer TOKEN</c>. With a
    /// token, clients of any machine may log in. Default null: no login, and only clients of the own machine are
    /// answered.
    /// </summary>
    public string? Token { get; init; }

    /// <summary>
    /// Allowed actions. Each one is reported as a diagnostic event of kind <see cref="DiagnosticEventKind.Dashboard"/>.
    /// Needs a <see cref="Token"/>. Default none.
    /// </summary>
    public DashboardActions Actions { get; init; }

    /// <summary>
    /// Interval of updates while there is a viewer: 100 ms to 1 minute, default 1 s. It grows by itself while one
    /// update takes more than a fiftieth of it.
    /// </summary>
    public TimeSpan Interval { get; init; } = TimeSpan.FromSeconds(1);

    /// <summary>
    /// Maximum number of viewers, 1 to 100. A further one is closed with 1013 (try again later). Default 8.
    /// </summary>
    public int MaxViewers { get; init; } = 8;

    /// <summary>Engines to show besides the engine of the server that has the dashboard. Default none.</summary>
    public IReadOnlyList<Engine> Engines { get; init; } = [];

    /// <summary>
    /// Origins of the page as browsers send them. Default <see cref="WebSocketOrigins.SameHost"/>. Use
    /// <see cref="WebSocketOrigins.SameHostBehindTls"/> if a proxy terminates TLS.
    /// </summary>
    public WebSocketOrigins Origins { get; init; } = WebSocketOrigins.SameHost;

    /// <summary>
    /// Whether clients of other machines may log in over a connection without TLS. For a server that only a proxy with
    /// TLS can reach. Default false.
    /// </summary>
    public bool AllowPlainLogin { get; init; }

    internal void Check()
    {
        List<string> mistakes = [];
        if (Token is { Length: < LeastToken })
            mistakes.Add($"{nameof(Token)} has {Token.Length} characters: {LeastToken} at least. Create one, for "
                + "example by: openssl rand -hex 32.");
        if ((Actions & ~DashboardActions.All) != 0) mistakes.Add($"{nameof(Actions)} has an unknown flag.");
        if (Actions != DashboardActions.None && Token is null)
            mistakes.Add($"{nameof(Actions)} need a login: set {nameof(Token)}, or leave them out. Otherwise every "
                + "user and program of this machine could disconnect clients.");
        if (AllowPlainLogin && Token is null)
            mistakes.Add($"{nameof(AllowPlainLogin)} needs a {nameof(Token)}: without one only this machine is "
                + "answered.");
        if (Interval < s_shortest || Interval > s_longest)
            mistakes.Add($"{nameof(Interval)} is {Interval}: 100 ms up to 1 minute.");
        if (MaxViewers is < 1 or > MostViewers)
            mistakes.Add($"{nameof(MaxViewers)} is {MaxViewers}: 1 up to {MostViewers}.");
        if (Engines is null || Engines.Contains(null!)) mistakes.Add($"{nameof(Engines)} has null.");
        if (Origins is null) mistakes.Add($"{nameof(Origins)} is null.");
        // The name of the parameter of AddDashboard.
        if (mistakes.Count > 0) throw new ArgumentException(string.Join(' ', mistakes), "options");
    }
}
