using Whimbrel.Compat.Links;

namespace CSharpServer;

/// <summary>Lets a client connect to a name. The look-up is that of the connect; this can give it up. Any thread.</summary>
public class UdpResolver : IDisposable
{
    private readonly Resolving _resolving = new();

    /// <summary>Makes one.</summary>
    /// <param name="service">Whose it is.</param>
    public UdpResolver(Service service)
    {
        ArgumentNullException.ThrowIfNull(service);
        Service = service;
    }

    /// <summary>Whose resolver this is.</summary>
    public Service Service { get; }

    internal Resolving Resolving => _resolving;

    /// <summary>Gives up the connects by it that are under way.</summary>
    public void Cancel() => _resolving.Cancel();

    /// <summary>Gives up the connects by it that are under way.</summary>
    public void Dispose()
    {
        Dispose(true);
        GC.SuppressFinalize(this);
    }

    /// <summary>Gives up the connects by it that are under way.</summary>
    /// <param name="disposing">True: by Dispose.</param>
    protected virtual void Dispose(bool disposing)
    {
        if (disposing) Cancel();
    }
}
