// The runtime looks for this name, outside of any namespace, in the assembly that DOTNET_STARTUP_HOOKS names, and calls it
// before Main: so the test program can be another program for once (Whimbrel.Tests.Tls.ExitUnderLoad).
#pragma warning disable CA1050 // the name is the runtime's
internal static class StartupHook
#pragma warning restore CA1050
{
    public static void Initialize() => Whimbrel.Tests.Tls.ExitUnderLoad.BeChild();
}
