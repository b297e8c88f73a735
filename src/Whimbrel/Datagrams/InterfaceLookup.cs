using System.Net;
using System.Net.NetworkInformation;
using Whimbrel.Engines;

namespace Whimbrel.Datagrams;

/// <summary>Looks up a network interface on the thread pool.</summary>
internal sealed class InterfaceLookup
{
    private readonly Engine _engine;
    private readonly string _name;
    private readonly Completion<int> _found;

    private InterfaceLookup(Engine engine, string name)
    {
        _engine = engine;
        _name = name;
        _found = new Completion<int>(engine);
    }

    /// <summary>
    /// Returns the number of the interface with that name, number or address; 0 for null. Throws
    /// <see cref="NetworkException"/> to the awaiting code if there is none.
    /// </summary>
    internal static ValueTask<int> FindAsync(Engine engine, string? name)
    {
        if (name is null) return new ValueTask<int>(0);
        if (int.TryParse(name, out int number) && number > 0) return new ValueTask<int>(number);
        InterfaceLookup lookup = new(engine, name);
        ValueTask<int> task = lookup._found.Task;
        engine.Offload(static state => ((InterfaceLookup)state!).Run(), lookup);
        return task;
    }

    private void Run()
    {
        int index;
        try
        {
            index = _engine.InterfaceIndexOf(_name);
        }
        catch (Exception e)
        {
            _found.SetException(e);
            return;
        }

        _found.SetResult(index);
    }

    /// <summary>
    /// Returns the number of an interface; 0 for null. Throws <see cref="NetworkException"/> if no interface has that
    /// name, number or address. Makes system calls: not on a hot path.
    /// </summary>
    internal static int IndexOf(string? name)
    {
        if (name is null) return 0;
        if (int.TryParse(name, out int number) && number > 0) return number;
        IPAddress? address = IPAddress.TryParse(name, out IPAddress? parsed) ? parsed : null;
        foreach (NetworkInterface one in NetworkInterface.GetAllNetworkInterfaces())
        {
            bool isIt = one.Name == name;
            if (!isIt && address is null) continue;
            IPInterfaceProperties properties = one.GetIPProperties();
            if (!isIt)
            {
                foreach (UnicastIPAddressInformation unicast in properties.UnicastAddresses)
                    isIt |= unicast.Address.Equals(address);
            }

            if (isIt) return NumberOf(properties);
        }

        throw new NetworkException(new NetworkError(Linux.Errno.ENODEV, ErrorCategory.Option,
            $"No network interface is called, or has the address, '{name}'. "
            + $"See docs/symptoms/multicast.md, or: whimbrel explain multicast."));
    }

    private static int NumberOf(IPInterfaceProperties properties)
    {
        try
        {
            return properties.GetIPv4Properties().Index;
        }
        catch (NetworkInformationException)
        {
            // The interface has no IPv4.
            return properties.GetIPv6Properties().Index;
        }
    }
}
