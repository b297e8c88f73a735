namespace Whimbrel;

/// <summary>Options of accepting: when it begins and ends, on which loops, and which connections. Immutable.</summary>
public sealed class AcceptOptions
{
    /// <summary>
    /// Whether accepting begins at the end of the start. Default true. False: the start binds and listens, so that
    /// ports are known and mistakes are found. Clients then wait in the backlog until
    /// <see cref="Server.StartAcceptingAsync"/>.
    /// </summary>
    public bool AtStart { get; init; } = true;

    /// <summary>
    /// Number of connections after which accepting stops; accepted connections continue. Default 0, no limit.
    /// <see cref="Server.StartAcceptingAsync"/> restarts the count.
    /// </summary>
    public int Limit { get; init; }

    /// <summary>One listener for all loops, or one for each. Default <see cref="AcceptScheme.Auto"/>.</summary>
    public AcceptScheme Scheme { get; init; }

    /// <summary>Rule that assigns accepted connections to loops. Default <see cref="Placement.Auto"/>.</summary>
    public Placement Placement { get; init; }

    /// <summary>
    /// Function that returns the loop for each accepted connection, a loop of the server's engine. Replaces
    /// <see cref="Placement"/>. Called on the accepting loop; must not block. If it throws or returns a loop of another
    /// engine, that connection is closed and <see cref="Server.OnError"/> is called.
    /// </summary>
    public Func<AcceptedConnection, Loop>? ChooseLoop { get; init; }

    /// <summary>
    /// Filter called for each connection before its session is created; false closes the connection at once. Called on
    /// the accepting loop; must not block, so look data up beforehand. If it throws, that connection is closed and
    /// <see cref="Server.OnError"/> is called.
    /// </summary>
    public Func<AcceptedConnection, bool>? Admit { get; init; }

    internal void Check(OptionErrors errors, Engine engine)
    {
        errors.Range("Accept.Limit", Limit, 0, int.MaxValue);
        errors.Defined("Accept.Scheme", Scheme);
        errors.Defined("Accept.Placement", Placement);
        if (Scheme == AcceptScheme.ListenerPerLoop && !engine.CanSharePorts)
            errors.Add("Accept.Scheme = ListenerPerLoop, which needs SO_REUSEPORT of Linux: use OneListener");
        if (ChooseLoop is not null && Placement != Placement.Auto)
            errors.Add("Accept.Placement and Accept.ChooseLoop are both given: use one of them");
    }
}
