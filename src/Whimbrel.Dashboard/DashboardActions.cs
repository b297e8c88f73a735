namespace Whimbrel.Dashboard;

/// <summary>Actions that a dashboard allows (<see cref="DashboardOptions.Actions"/>).</summary>
[Flags]
public enum DashboardActions
{
    /// <summary>The dashboard only shows.</summary>
    None = 0,

    /// <summary>Closing or resetting one connection.</summary>
    Disconnect = 1,

    /// <summary>Stopping a server: it stops accepting and drains its sessions.</summary>
    Drain = 2,

    /// <summary>Loading the certificate files of a server again.</summary>
    ReloadCertificate = 4,

    /// <summary>All of them.</summary>
    All = Disconnect | Drain | ReloadCertificate,
}
